package rpc

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
)

// lengths are those around every bound in the protos, in bytes and, with two bytes each, in characters.
func lengths() []int { return []int{0, 1, 2, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4096, 4097} }

// randomly fills a message with values around the bounds; each field is left out half of the time.
func randomly(m protoreflect.Message, r *rand.Rand, depth int) {
	word := func() string {
		letter := []string{"x", "é", "\xff"}[r.IntN(3)]
		return strings.Repeat(letter, lengths()[r.IntN(len(lengths()))])
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if r.IntN(2) == 0 || f.IsMap() || f.Message() != nil && depth == 0 {
			continue
		}
		make1 := func() protoreflect.Value {
			switch f.Kind() {
			case protoreflect.StringKind:
				return protoreflect.ValueOfString(word())
			case protoreflect.BytesKind:
				return protoreflect.ValueOfBytes([]byte(word()))
			case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
				return protoreflect.ValueOfUint32([]uint32{0, 1048576, 1048577, 1<<32 - 1}[r.IntN(4)])
			default:
				return scalar(f)
			}
		}
		switch {
		case f.IsList():
			list := m.Mutable(f).List()
			for range []int{1, 63, 64, 65}[r.IntN(4)] {
				if f.Message() == nil {
					list.Append(make1())
					continue
				}
				e := list.NewElement()
				randomly(e.Message(), r, depth-1)
				list.Append(e)
			}
		case f.Message() != nil:
			randomly(m.Mutable(f).Message(), r, depth-1)
		default:
			m.Set(f, make1())
		}
	}
}

// TestPlainRulesAreNotWiderThanTheRules: whatever is plainly valid is valid, for random messages of every type.
func TestPlainRulesAreNotWiderThanTheRules(t *testing.T) {
	t.Parallel()
	v, err := NewValidator()
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(4, 2))
	valid, plainly, refused := 0, 0, 0
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		name := string(mt.Descriptor().FullName())
		if !strings.HasPrefix(name, "kvmesh.") || mt.Descriptor().IsMapEntry() {
			return true
		}
		for range 12 {
			m := mt.New().Interface()
			randomly(m.ProtoReflect(), r, 2)
			err := v.v.Validate(m)
			if v.plainly(m) {
				plainly++
				require.NoError(t, err, name)
			}
			if err == nil {
				valid++
			} else {
				refused++
				require.Error(t, v.Check(m))
			}
		}
		return true
	})
	require.Greater(t, refused, 50, "bounds are passed")
	require.Greater(t, plainly, valid*3/4, "most of what is valid is plainly so")
}

// TestEveryCallIsPlain: the messages of a request's calls need no validator.
func TestEveryCallIsPlain(t *testing.T) {
	t.Parallel()
	v, err := NewValidator()
	require.NoError(t, err)
	for _, m := range []proto.Message{
		&templatev1.RenderRequest{Model: "m", MessagesJson: []byte("[]"), ChatTemplate: proto.String("t")},
		&tokenizerv1.EncodeRequest{Model: "m", Text: []byte("text"), Salting: &tokenizerv1.Salting{LoraName: "l", BlockTokens: 48}},
		&schedulerv1.RouteRequest{RequestId: "r", Model: "m", UnitHashes: make([]uint64, 512), Exclude: []*schedulerv1.Target{{WorkerId: "w"}}},
		&schedulerv1.ProgressRequest{Reservation: 1},
		&schedulerv1.SettleRequest{Reservation: 1},
	} {
		require.True(t, v.plainly(m), "%T", m)
		require.NoError(t, v.Check(m))
	}
	for name, m := range map[string]proto.Message{
		"too short":           &templatev1.RenderRequest{},
		"too long":            &tokenizerv1.EncodeRequest{Model: strings.Repeat("m", 1025)},
		"too long inside":     &tokenizerv1.EncodeRequest{Model: "m", Salting: &tokenizerv1.Salting{LoraName: strings.Repeat("l", 1025)}},
		"number too large":    &tokenizerv1.EncodeRequest{Model: "m", Salting: &tokenizerv1.Salting{BlockTokens: 1048577}},
		"too many":            &schedulerv1.RouteRequest{Model: "m", Exclude: make65()},
		"optional too long":   &templatev1.RenderRequest{Model: "m", ReasoningEffort: proto.String(strings.Repeat("x", 65))},
		"long in bytes alone": &templatev1.RenderRequest{Model: "m", ReasoningEffort: proto.String(strings.Repeat("é", 40))},
	} {
		require.False(t, v.plainly(m), name)
		require.Equal(t, name == "long in bytes alone", v.Check(m) == nil, name)
	}
	require.False(t, v.plainly((*templatev1.RenderRequest)(nil)))
}

func make65() []*schedulerv1.Target {
	out := make([]*schedulerv1.Target, 65)
	for i := range out {
		out[i] = &schedulerv1.Target{WorkerId: "w"}
	}
	return out
}
