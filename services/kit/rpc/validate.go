package rpc

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// Validator checks messages against the protovalidate rules of their protos. One serves a whole process: it compiles a
// message's rules when it first sees one.
type Validator struct {
	v     protovalidate.Validator
	plain sync.Map // reflect.Type -> *plainRules, nil for types with rules of other kinds
}

// NewValidator makes a validator without compiled rules.
func NewValidator() (*Validator, error) {
	v, err := protovalidate.New(protovalidate.WithFailFast())
	if err != nil {
		return nil, fmt.Errorf("make validator: %w", err)
	}
	return &Validator{v: v}, nil
}

// Check returns an INVALID_REQUEST fault for the first broken rule, with the field's path as its param. Values are not
// quoted: a field may be prompt text.
func (v *Validator) Check(m any) error {
	msg, ok := m.(proto.Message)
	if !ok {
		return nil
	}
	if v.plainly(msg) {
		return nil
	}
	err := v.v.Validate(msg)
	if err == nil {
		return nil
	}
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) || len(broken.Violations) == 0 {
		return fault.Wrap(faultv1.Reason_REASON_INTERNAL, err, "validate %T", m)
	}
	first := broken.Violations[0].Proto
	path := protovalidate.FieldPathString(first.GetField())
	text := first.GetMessage()
	if text == "" {
		text = "breaks the rule " + first.GetRuleId()
	}
	return fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "%s: %s", path, text).WithParam(path)
}

// plainly tells that a message is valid without asking the validator; false says nothing.
func (v *Validator) plainly(msg proto.Message) bool {
	at := reflect.ValueOf(msg)
	if at.Kind() != reflect.Pointer || at.IsNil() {
		return false
	}
	rules, known := v.plain.Load(at.Type())
	if !known {
		made, ok := plainOf(msg)
		if !ok {
			made = nil
		}
		rules, _ = v.plain.LoadOrStore(at.Type(), made)
	}
	plain, _ := rules.(*plainRules)
	return plain != nil && plain.valid(at.Elem())
}

// validateStep checks every message that a handler receives.
func validateStep(v *Validator) Interceptor {
	return Interceptor{
		Name: "validate",
		Unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			if err := v.Check(req); err != nil {
				return nil, err
			}
			return h(ctx, req)
		},
		Stream: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			return h(srv, checkedStream{ss, v})
		},
	}
}

// checkedStream validates what the handler receives, each message by itself.
type checkedStream struct {
	grpc.ServerStream
	v *Validator
}

func (s checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.v.Check(m)
}
