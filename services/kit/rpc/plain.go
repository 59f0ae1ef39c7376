package rpc

import (
	"math"
	"reflect"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// plainRules are a message type's rules where all of them are bounds of lengths and numbers: they tell in a few ns that a
// message is valid. What they do not tell is left to the validator, also the fault of an invalid one, so they may be
// narrower than the rules but never wider: a string's characters are bounded by its bytes.
type plainRules struct {
	checks []plainCheck
}

// plainCheck is one field's bounds.
type plainCheck struct {
	field    int // of the struct
	least    int // of a length
	most     int
	mostUint uint64      // of a number
	number   bool        // most counts the value, not a length
	optional bool        // a pointer: nil is valid
	message  *plainRules // of a message, or of the elements of a list
}

// plainOf reads a message type's rules. ok is false when one of them is of another kind.
func plainOf(m proto.Message) (rules *plainRules, ok bool) {
	t := reflect.TypeOf(m)
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, false
	}
	return plainType(t.Elem(), m.ProtoReflect().Descriptor(), 0)
}

// plainDepth bounds how deep messages in messages are followed; recursive types end there.
const plainDepth = 4

func plainType(t reflect.Type, d protoreflect.MessageDescriptor, depth int) (*plainRules, bool) {
	if depth > plainDepth || proto.HasExtension(d.Options(), validate.E_Message) || hasRealOneof(d) {
		return nil, false
	}
	rules := &plainRules{}
	fields := fieldsByNumber(t)
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		at, ok := fields[int(f.Number())]
		if !ok {
			return nil, false
		}
		check, needed, ok := plainField(t.Field(at).Type, f, depth)
		if !ok {
			return nil, false
		}
		if needed {
			check.field = at
			rules.checks = append(rules.checks, check)
		}
	}
	return rules, true
}

// hasRealOneof tells whether a message has alternatives, which Go keeps behind an interface.
func hasRealOneof(d protoreflect.MessageDescriptor) bool {
	for i := range d.Oneofs().Len() {
		if !d.Oneofs().Get(i).IsSynthetic() {
			return true
		}
	}
	return false
}

// fieldsByNumber finds a generated struct's fields by the number in their tag.
func fieldsByNumber(t reflect.Type) map[int]int {
	out := map[int]int{}
	for i := range t.NumField() {
		parts := strings.Split(t.Field(i).Tag.Get("protobuf"), ",")
		if len(parts) < 2 {
			continue
		}
		if n, err := strconv.Atoi(parts[1]); err == nil {
			out[n] = i
		}
	}
	return out
}

// plainField makes a field's check; needed is false for a field that may hold anything.
func plainField(t reflect.Type, f protoreflect.FieldDescriptor, depth int) (check plainCheck, needed, ok bool) {
	check = plainCheck{most: math.MaxInt, optional: t.Kind() == reflect.Pointer && f.Message() == nil}
	if f.Message() != nil && !f.IsMap() {
		elem := t
		if f.IsList() {
			elem = t.Elem()
		}
		inner, ok := plainType(elem.Elem(), f.Message(), depth+1)
		if !ok {
			return check, false, false
		}
		if len(inner.checks) > 0 {
			check.message, needed = inner, true
		}
	}
	if f.IsMap() && f.MapValue().Message() != nil {
		return check, false, false
	}
	rules, _ := proto.GetExtension(f.Options(), validate.E_Field).(*validate.FieldRules)
	if !proto.HasExtension(f.Options(), validate.E_Field) || rules == nil {
		return check, needed, true
	}
	return check, true, check.bounds(rules)
}

// bounds takes over a field's rules; false when they say more than bounds.
func (c *plainCheck) bounds(r *validate.FieldRules) bool {
	known := &validate.FieldRules{}
	switch {
	case r.GetString() != nil:
		s := r.GetString()
		known.Type = &validate.FieldRules_String_{String_: &validate.StringRules{
			MinLen: s.MinLen, MaxLen: s.MaxLen, MaxBytes: s.MaxBytes,
		}}
		c.least = clamp(s.GetMinLen())
		if c.least > 1 { // characters may be fewer than bytes
			return false
		}
		c.atMost(s.MaxLen)
		c.atMost(s.MaxBytes)
	case r.GetBytes() != nil:
		known.Type = &validate.FieldRules_Bytes{Bytes: &validate.BytesRules{MaxLen: r.GetBytes().MaxLen}}
		c.atMost(r.GetBytes().MaxLen)
	case r.GetRepeated() != nil:
		known.Type = &validate.FieldRules_Repeated{Repeated: &validate.RepeatedRules{MaxItems: r.GetRepeated().MaxItems}}
		c.atMost(r.GetRepeated().MaxItems)
	case r.GetUint32() != nil:
		lte, _ := r.GetUint32().GetLessThan().(*validate.UInt32Rules_Lte)
		if lte == nil {
			return false
		}
		known.Type = &validate.FieldRules_Uint32{Uint32: &validate.UInt32Rules{LessThan: lte}}
		c.number, c.mostUint = true, uint64(lte.Lte)
	}
	return known.Type != nil && proto.Equal(known, r)
}

// atMost lowers the bound of a length.
func (c *plainCheck) atMost(n *uint64) {
	if n != nil {
		c.most = min(c.most, clamp(*n))
	}
}

func clamp(n uint64) int { return int(min(n, math.MaxInt)) }

// valid tells that a message keeps the rules; false says nothing.
func (p *plainRules) valid(m reflect.Value) bool {
	for i := range p.checks {
		if !p.checks[i].valid(m.Field(p.checks[i].field)) {
			return false
		}
	}
	return true
}

func (c *plainCheck) valid(v reflect.Value) bool {
	switch {
	case c.optional:
		if v.IsNil() {
			return true
		}
		v = v.Elem()
	case c.message != nil && v.Kind() == reflect.Pointer:
		return v.IsNil() || c.message.valid(v.Elem())
	}
	if c.number {
		return v.Uint() <= c.mostUint
	}
	n := v.Len()
	if n < c.least || n > c.most {
		return false
	}
	if c.message != nil {
		for i := range n {
			e := v.Index(i)
			if e.IsNil() || !c.message.valid(e.Elem()) {
				return false
			}
		}
	}
	return true
}
