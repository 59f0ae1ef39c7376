// Package capture reads what a real vLLM server was seen to publish, for tests.
//
// The recordings lie outside this module: in $KVMESH_CORPUS, or in ../shared/corpus beside the repository.
package capture

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// EnvCorpus names the variable that says where the recordings are.
const EnvCorpus = "KVMESH_CORPUS"

// lineMax bounds one line of a recording.
const lineMax = 8 << 20

// Message is one published batch as it came over ZMQ.
type Message struct {
	// Topic, Seq and Payload are the three frames.
	Topic   string
	Seq     uint64
	Payload []byte
	// Port is the publisher's, where a recording has several; else 0.
	Port int
}

// Replay is one exchange with the replay socket, as the client saw it.
type Replay struct {
	// Socket is DEALER or REQ.
	Socket string
	// Request and Replies hold frames.
	Request [][]byte
	Replies [][][]byte
}

// Scenario is one recording.
type Scenario struct {
	// Name is the file's, without directory and suffix.
	Name     string
	Messages []Message
	Replays  []Replay
}

// line is one JSON object of a recording.
type line struct {
	Kind    string   `json:"kind"`
	Topic   string   `json:"topic"`
	Seq     uint64   `json:"seq"`
	Payload string   `json:"payload_hex"`
	Port    int      `json:"port"`
	Socket  string   `json:"socket"`
	Frames  []string `json:"frames_hex"`
	Replies []struct {
		Frames []string `json:"frames_hex"`
	} `json:"replies"`
}

// Dir is the folder of vLLM's recordings. The error names the variable to set.
func Dir() (string, error) {
	root := os.Getenv(EnvCorpus)
	if root == "" {
		root = besideRepository()
	}
	dir := filepath.Join(root, "vllm-capture")
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("find vLLM recordings (set %s to the corpus folder): %w", EnvCorpus, err)
	}
	return dir, nil
}

// besideRepository walks up to the folder that holds go.work and answers with its neighbour shared/corpus.
func besideRepository() string {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			return filepath.Join(dir, "..", "shared", "corpus")
		}
		dir = filepath.Dir(dir)
	}
	return "corpus"
}

// All reads every recording of KV events, in order of name.
func All() ([]Scenario, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*kv-*.jsonl"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no recordings in %s (%s)", dir, EnvCorpus)
	}
	var out []Scenario
	for _, f := range files {
		s, err := read(f)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Load reads one recording by name, as "kv-t-hybrid-swa".
func Load(name string) (Scenario, error) {
	dir, err := Dir()
	if err != nil {
		return Scenario{}, err
	}
	return read(filepath.Join(dir, name+".jsonl"))
}

// read parses one file.
func read(path string) (Scenario, error) {
	f, err := os.Open(path)
	if err != nil {
		return Scenario{}, fmt.Errorf("open recording: %w", err)
	}
	defer f.Close()
	s := Scenario{Name: strings.TrimSuffix(filepath.Base(path), ".jsonl")}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, lineMax)
	for sc.Scan() {
		if err := s.add(sc.Bytes()); err != nil {
			return s, fmt.Errorf("read recording %s: %w", s.Name, err)
		}
	}
	return s, sc.Err()
}

// add takes one line in.
func (s *Scenario) add(b []byte) error {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		return err
	}
	switch l.Kind {
	case "kv":
		p, err := hex.DecodeString(l.Payload)
		if err != nil {
			return err
		}
		s.Messages = append(s.Messages, Message{Topic: l.Topic, Seq: l.Seq, Payload: p, Port: l.Port})
	case "replay_request":
		r := Replay{Socket: l.Socket}
		var err error
		if r.Request, err = frames(l.Frames); err != nil {
			return err
		}
		for _, reply := range l.Replies {
			fr, err := frames(reply.Frames)
			if err != nil {
				return err
			}
			r.Replies = append(r.Replies, fr)
		}
		s.Replays = append(s.Replays, r)
	}
	return nil
}

// frames decodes a list of hexadecimal frames.
func frames(in []string) ([][]byte, error) {
	out := make([][]byte, len(in))
	for i, h := range in {
		b, err := hex.DecodeString(h)
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return out, nil
}
