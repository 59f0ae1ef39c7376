package rpc

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	_ "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	_ "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	_ "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	_ "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
)

// fillIn sets every field of a message: scalars to values other than their zero, lists and maps to one element.
func fillIn(m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.IsMap(), f.Message() != nil && depth == 0:
		case f.IsList():
			v := m.Mutable(f).List()
			if f.Message() != nil {
				e := v.NewElement()
				fillIn(e.Message(), depth-1)
				v.Append(e)
			} else {
				v.Append(scalar(f))
			}
		case f.Message() != nil:
			fillIn(m.Mutable(f).Message(), depth-1)
		default:
			m.Set(f, scalar(f))
		}
	}
}

func scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(f.Name()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(f.Name()))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(f.Number()))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(f.Number()))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(f.Number()))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(f.Number()))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(f.Number()))
	default:
		return protoreflect.ValueOfInt64(int64(f.Number()))
	}
}

// TestCopyOfEveryMessage copies every message of kvmesh's protos, filled and empty, with unknown fields and without; the
// copy is equal and its own, and every one of them is copied at once.
func TestCopyOfEveryMessage(t *testing.T) {
	t.Parallel()
	var c copier
	seen := 0
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		name := mt.Descriptor().FullName()
		if len(name) < 6 || name[:6] != "kvmesh" || mt.Descriptor().IsMapEntry() {
			return true
		}
		seen++
		for _, unknown := range []protoreflect.RawFields{nil, {0x98, 0xff, 0x7, 1}} {
			src := mt.New()
			for range 2 {
				src.SetUnknown(unknown)
				dst := mt.New().Interface()
				require.NoError(t, c.copy(dst, src.Interface()), name)
				require.True(t, proto.Equal(src.Interface(), dst), name)
				proto.Reset(dst)
				require.True(t, proto.Equal(src.Interface(), proto.Clone(src.Interface())))
				fillIn(src, 2)
			}
		}
		goType := reflect.TypeOf(mt.New().Interface()).Elem()
		plan := planOf(goType)
		require.False(t, plan.deep, name)
		require.Equal(t, len(plan.fields) > 0, plan.block != nil, name)
		return true
	})
	require.Greater(t, seen, 40)
}

// TestCopyWithoutABlock: fields that do not lie together are copied one by one.
func TestCopyWithoutABlock(t *testing.T) {
	t.Parallel()
	type apart struct {
		A string
		b int
		C string
	}
	require.Nil(t, blockOf(reflect.TypeFor[apart](), []int{0, 2}))
	require.NotNil(t, blockOf(reflect.TypeFor[apart](), []int{0}))
	type inPadding struct {
		A string
		B uint32
		c int32
	}
	require.Nil(t, blockOf(reflect.TypeFor[inPadding](), []int{0, 1}), "c lies in the padding behind B")
}

func BenchmarkCopy(b *testing.B) {
	src := &schedulerv1.RouteRequest{}
	fillIn(src.ProtoReflect(), 1)
	var c copier
	dst := &schedulerv1.RouteRequest{}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.copy(dst, src); err != nil {
			b.Fatal(err)
		}
	}
}
