package value

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Keys that are equal must hash alike across types: 1, 1.0 and True. Every
// key of a template's making is charged before it is hashed.

// hashKey is equal for keys that Python holds equal: 1, 1.0 and True are one key.
type hashKey struct {
	s string
	n uint64
	k Kind
}

// ChargeKey charges the hashing of v as a dict key, and refuses keys nested too
// deep; it comes before every look-up of a key that a template made.
func ChargeKey(m *limit.Meter, v Value) error { return chargeKey(m, v, 0) }

// chargeKey is ChargeKey at a depth of nesting.
func chargeKey(m *limit.Meter, v Value, depth int) error {
	switch v.k {
	case KindStr, KindBytes:
		return m.Scan(int(v.n))
	case KindTuple:
		if depth >= maxDepth {
			return errDepth()
		}
		if err := m.Work(int(v.n)); err != nil {
			return err
		}
		for _, c := range v.Cells() {
			if err := chargeKey(m, c, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// hash gives the hash key of v: TypeError for lists, dicts and what holds them.
func hash(v Value) (hashKey, error) { return hashAt(v, 0) }

// hashAt is hash at a depth of nesting.
func hashAt(v Value, depth int) (hashKey, error) {
	switch v.k {
	case KindStr, KindBytes:
		return hashKey{k: v.k, s: v.AsStr()}, nil
	case KindBool, KindInt:
		return hashKey{k: KindInt, n: v.n}, nil
	case KindBig:
		return hashKey{k: KindBig, s: string(v.AsBig().Bytes()), n: uint64(v.AsBig().Sign())}, nil
	case KindFloat:
		f := v.AsFloat()
		if f == math.Trunc(f) && !math.IsInf(f, 0) {
			b, _ := big.NewFloat(f).Int(nil)
			return hash(Big(b))
		}
		return hashKey{k: KindFloat, n: v.n}, nil
	case KindUndefined, KindNone:
		return hashKey{k: v.k}, nil
	case KindTuple:
		return hashTuple(v, depth+1)
	case KindObject:
		if u, ok := v.AsObject().(interface{ Unhashable() bool }); !ok || !u.Unhashable() {
			return hashKey{k: KindObject, n: uint64(uintptr(v.p))}, nil
		}
	}
	return hashKey{}, pyerr.Newf(pyerr.Type, "unhashable type: '%s'", v.TypeName())
}

// hashTuple combines the hash keys of the members, unambiguously.
func hashTuple(v Value, depth int) (hashKey, error) {
	if depth > maxDepth {
		return hashKey{}, errDepth()
	}
	var b strings.Builder
	for _, c := range v.Cells() {
		h, err := hashAt(c, depth)
		if err != nil {
			return hashKey{}, err
		}
		b.WriteString(strconv.Itoa(int(h.k)))
		b.WriteByte(':')
		b.WriteString(strconv.FormatUint(h.n, 16))
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(len(h.s)))
		b.WriteByte(':')
		b.WriteString(h.s)
	}
	return hashKey{k: KindTuple, s: b.String(), n: v.n}, nil
}
