package bus

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// Subject is a NATS subject of kvmesh. The functions below make them; names from outside (models with slashes and dots)
// are escaped, so that one name is always one token.
type Subject string

const (
	kvPrefix       = "kvmesh.kv."
	inflightPrefix = "kvmesh.inflight."
)

// KV carries the eventv1.KvDelta messages of one rank of one worker.
func KV(model, worker string, rank uint32) Subject {
	return Subject(kvPrefix + escape(model) + "." + escape(worker) + "." + strconv.FormatUint(uint64(rank), 10))
}

// KVModel matches all ranks of all workers of one model.
func KVModel(model string) Subject { return Subject(kvPrefix + escape(model) + ".*.*") }

// KVAll matches every rank of every worker.
func KVAll() Subject { return kvPrefix + ">" }

// Inflight carries one scheduler's eventv1.InflightDelta messages.
func Inflight(scheduler string) Subject { return Subject(inflightPrefix + escape(scheduler)) }

// InflightAll matches all schedulers, also the one that subscribes.
func InflightAll() Subject { return inflightPrefix + "*" }

// KVName is what a KV subject names.
type KVName struct {
	Model, Worker string
	Rank          uint32
}

// ParseKV is the inverse of KV; false for any other subject.
func ParseKV(s Subject) (KVName, bool) {
	rest, ok := strings.CutPrefix(string(s), kvPrefix)
	tokens := strings.Split(rest, ".")
	if !ok || len(tokens) != 3 {
		return KVName{}, false
	}
	model, okModel := unescape(tokens[0])
	worker, okWorker := unescape(tokens[1])
	rank, err := strconv.ParseUint(tokens[2], 10, 32)
	return KVName{Model: model, Worker: worker, Rank: uint32(rank)}, okModel && okWorker && err == nil
}

// kind is the token that tells families of subjects apart; it is a metric label.
func (s Subject) kind() string {
	rest, _ := strings.CutPrefix(string(s), "kvmesh.")
	kind, _, _ := strings.Cut(rest, ".")
	return kind
}

// emptyToken stands for the empty name: NATS has no empty tokens. escape makes "%" only in front of two hex digits, so
// it cannot be another name's token.
const emptyToken = "%"

// escape makes one subject token of any name: letters, digits, "_" and "-" stay, other bytes become %XX.
func escape(name string) string {
	if name == "" {
		return emptyToken
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteString(emptyToken + strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// unescape is the inverse of escape; false for what escape cannot have made.
func unescape(token string) (string, bool) {
	if token == emptyToken {
		return "", true
	}
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		if token[i] != '%' {
			b.WriteByte(token[i])
			continue
		}
		if i+2 >= len(token) {
			return "", false
		}
		c, err := hex.DecodeString(token[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.WriteByte(c[0])
		i += 2
	}
	return b.String(), escape(b.String()) == token
}
