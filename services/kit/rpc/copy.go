package rpc

import (
	"reflect"
	"sync"

	"google.golang.org/protobuf/proto"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// copier makes shallow copies of messages. It remembers per message type which struct fields carry the message. The
// bookkeeping fields of generated code (cached size, type info) stay out: they are written by readers of the source,
// so copying them would be a data race.
type copier struct{ plans sync.Map } // reflect.Type of the struct -> copyPlan

// copyPlan lists a struct's message fields; deep is set for types whose fields are not exported (the opaque API). Generated
// code keeps the fields together: block is then their type as one struct, which is copied at once.
type copyPlan struct {
	fields []int
	block  reflect.Type // nil for fields that do not lie together
	deep   bool
}

// copy sets dst, a fresh message, to what src holds. Slices, maps and sub-messages are shared. Both have the same type.
func (c *copier) copy(dst, src any) error {
	to, from := reflect.ValueOf(dst), reflect.ValueOf(src)
	out, okDst := dst.(proto.Message)
	in, okSrc := src.(proto.Message)
	if !okDst || !okSrc || from.IsNil() || to.IsNil() || from.Type() != to.Type() {
		return fault.New(faultv1.Reason_REASON_INTERNAL, "rpc: message of type %T where %T is due", src, dst)
	}
	to, from = to.Elem(), from.Elem()
	plan := c.plan(to.Type())
	if plan.deep {
		proto.Reset(out)
		proto.Merge(out, in)
		return nil
	}
	if plan.block != nil {
		first := plan.fields[0]
		blockAt(plan.block, to.Field(first)).Set(blockAt(plan.block, from.Field(first)))
	} else {
		for _, i := range plan.fields {
			to.Field(i).Set(from.Field(i))
		}
	}
	if unknown := in.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		out.ProtoReflect().SetUnknown(unknown)
	}
	return nil
}

// plan may be made twice by two first calls; both are equal.
func (c *copier) plan(t reflect.Type) copyPlan {
	if p, ok := c.plans.Load(t); ok {
		return p.(copyPlan)
	}
	p := planOf(t)
	c.plans.Store(t, p)
	return p
}

// planOf knows the three unexported fields of open-struct messages; any other one means another layout.
func planOf(t reflect.Type) copyPlan {
	var p copyPlan
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.IsExported():
			p.fields = append(p.fields, i)
		case f.Name != "state" && f.Name != "sizeCache" && f.Name != "unknownFields":
			p.deep = true
		}
	}
	if !p.deep && len(p.fields) > 0 {
		p.block = blockOf(t, p.fields)
	}
	return p
}

// blockOf is one struct type with the layout of the fields, nil where there is none. Its padding at the end belongs to the
// copy, so no other field may lie there.
func blockOf(t reflect.Type, fields []int) reflect.Type {
	list := make([]reflect.StructField, len(fields))
	for i, f := range fields {
		list[i] = reflect.StructField{Name: t.Field(f).Name, Type: t.Field(f).Type}
	}
	block := reflect.StructOf(list)
	first := t.Field(fields[0])
	for i, f := range fields {
		if t.Field(f).Offset != first.Offset+block.Field(i).Offset {
			return nil
		}
	}
	end := first.Offset + block.Size()
	if after := fields[len(fields)-1] + 1; end > t.Size() || after < t.NumField() && t.Field(after).Offset < end {
		return nil
	}
	return block
}

// blockAt is the block that begins with a field of an addressable struct.
func blockAt(block reflect.Type, first reflect.Value) reflect.Value {
	return reflect.NewAt(block, first.Addr().UnsafePointer()).Elem()
}
