package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// overRPC sends err the way gRPC does: as the bytes of a google.rpc.Status.
func overRPC(t *testing.T, err error) error {
	t.Helper()
	st, ok := status.FromError(err)
	require.True(t, ok)
	raw, merr := proto.Marshal(st.Proto())
	require.NoError(t, merr)
	back := &spb.Status{}
	require.NoError(t, proto.Unmarshal(raw, back))
	return status.ErrorProto(back)
}

func TestRoundTripKeepsEveryReason(t *testing.T) {
	t.Parallel()
	for number, name := range faultv1.Reason_name {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := fault.Reason(number)
			sent := fault.Wrap(r, errors.New("secret cause"), "row %d", 7).WithParam("a[1].b").WithRetryAfter(1500 * time.Millisecond)
			got := fault.From(overRPC(t, sent))
			want := &fault.Error{Reason: r, Message: "row 7", Param: "a[1].b", RetryAfter: 1500 * time.Millisecond}
			if fault.Code(r) == codes.Internal {
				want.Message = "internal error"
			}
			require.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreUnexported(fault.Error{})))
			require.NoError(t, errors.Unwrap(got), "no cause crosses RPC")
			require.Empty(t, cmp.Diff(sent.Remote(), got, cmpopts.IgnoreUnexported(fault.Error{})))
			require.NoError(t, errors.Unwrap(sent.Remote()))
			require.NotContains(t, overRPC(t, sent).Error(), "secret cause")
			require.Equal(t, r, fault.ReasonOf(got))
			require.ErrorIs(t, got, fault.New(r, "another message"))
			require.NotErrorIs(t, got, fault.New(r+1, "row 7"))
		})
	}
}

func TestEveryReasonHasACode(t *testing.T) {
	t.Parallel()
	internal := 0
	for number := range faultv1.Reason_name {
		c := fault.Code(fault.Reason(number))
		require.NotEqual(t, codes.OK, c)
		require.NotEqual(t, codes.Unknown, c)
		if c == codes.Internal {
			internal++
		}
	}
	require.Equal(t, 2, internal, "only UNSPECIFIED and INTERNAL may fall through to INTERNAL")
	require.Equal(t, codes.Internal, fault.Code(9999))
}

func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "NO_WORKER", fault.Name(faultv1.Reason_REASON_NO_WORKER))
	r, ok := fault.Parse("MODEL_LOADING")
	require.True(t, ok)
	require.Equal(t, faultv1.Reason_REASON_MODEL_LOADING, r)
	_, ok = fault.Parse("FROM_THE_FUTURE")
	require.False(t, ok)
}

func TestFrom(t *testing.T) {
	t.Parallel()
	ours := fault.New(faultv1.Reason_REASON_OVERLOADED, "queue full")
	foreign, err := status.New(codes.NotFound, "gone").WithDetails(&errdetails.ErrorInfo{Reason: "NO_WORKER", Domain: "other"})
	require.NoError(t, err)
	newer, err := status.New(codes.Unavailable, "hm").WithDetails(&errdetails.ErrorInfo{Reason: "FUTURE", Domain: fault.Domain})
	require.NoError(t, err)
	for _, row := range []struct {
		name    string
		err     error
		reason  fault.Reason
		message string
	}{
		{"a fault", ours, faultv1.Reason_REASON_OVERLOADED, "queue full"},
		{"a wrapped fault", fmt.Errorf("route: %w", ours), faultv1.Reason_REASON_OVERLOADED, "queue full"},
		{"a joined fault", errors.Join(io.EOF, ours), faultv1.Reason_REASON_OVERLOADED, "queue full"},
		{"anything else", io.ErrUnexpectedEOF, faultv1.Reason_REASON_INTERNAL, "internal error"},
		{"context cancelled", fmt.Errorf("x: %w", context.Canceled), faultv1.Reason_REASON_CANCELLED, "the request was cancelled"},
		{"context deadline", context.DeadlineExceeded, faultv1.Reason_REASON_DEADLINE_EXCEEDED, "the deadline passed"},
		{"plain status", status.Error(codes.Unavailable, "dial"), faultv1.Reason_REASON_UNAVAILABLE, "a service of the mesh cannot be reached now"},
		{"wrapped status", fmt.Errorf("y: %w", status.Error(codes.Canceled, "c")), faultv1.Reason_REASON_CANCELLED, "c"},
		{"another domain's reason", foreign.Err(), faultv1.Reason_REASON_NOT_FOUND, "gone"},
		{"a newer peer's reason", newer.Err(), faultv1.Reason_REASON_UNAVAILABLE, "hm"},
		{
			"gRPC's size limit", status.Error(codes.ResourceExhausted, "grpc: received message larger than max (9 vs. 4)"),
			faultv1.Reason_REASON_TOO_LARGE, "grpc: received message larger than max (9 vs. 4)",
		},
		{"overload elsewhere", status.Error(codes.ResourceExhausted, "quota"), faultv1.Reason_REASON_OVERLOADED, "quota"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := fault.From(row.err)
			require.Equal(t, row.reason, got.Reason)
			require.Equal(t, row.message, got.Message)
		})
	}
	require.Nil(t, fault.From(nil))
	require.Equal(t, faultv1.Reason_REASON_UNSPECIFIED, fault.ReasonOf(nil))
}

func TestCodesWithoutDetailsMapBack(t *testing.T) {
	t.Parallel()
	for code := codes.Code(1); code <= codes.Unauthenticated; code++ {
		r := fault.ReasonOf(status.Error(code, "x"))
		if r == faultv1.Reason_REASON_INTERNAL {
			continue
		}
		require.Equal(t, code, fault.Code(r), "%v maps to %v", code, r)
	}
}

func TestIsContextError(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, fault.New(faultv1.Reason_REASON_CANCELLED, "x"), context.Canceled)
	require.ErrorIs(t, fault.New(faultv1.Reason_REASON_DEADLINE_EXCEEDED, "x"), context.DeadlineExceeded)
	require.NotErrorIs(t, fault.New(faultv1.Reason_REASON_INTERNAL, "x"), context.Canceled)
	require.ErrorIs(t, fault.Wrap(faultv1.Reason_REASON_WORKER_FAILED, io.EOF, "x"), io.EOF)
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "INVALID_REQUEST: 100% wrong", fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "100% wrong").Error())
	e := fault.Wrap(faultv1.Reason_REASON_WORKER_FAILED, io.EOF, "worker %s", "w1")
	require.Equal(t, "WORKER_FAILED: worker w1: EOF", e.Error())
}

func TestWithCopies(t *testing.T) {
	t.Parallel()
	e := fault.New(faultv1.Reason_REASON_OVERLOADED, "x")
	require.Equal(t, "p", e.WithParam("p").Param)
	require.Equal(t, time.Second, e.WithRetryAfter(time.Second).RetryAfter)
	require.Empty(t, e.Param)
	require.Zero(t, e.RetryAfter)
}

// FuzzStatus: whatever the message and param hold, the status can be marshalled, is bounded and keeps its reason.
func FuzzStatus(f *testing.F) {
	f.Add("ok", "messages[0]", int32(2))
	f.Add("bad \xff utf8", "\xc3", int32(7))
	f.Add(strings.Repeat("é", 3000), strings.Repeat("x", 3000), int32(11))
	f.Fuzz(func(t *testing.T, msg, param string, reason int32) {
		if _, known := faultv1.Reason_name[reason]; !known {
			return
		}
		e := fault.New(fault.Reason(reason), "%s", msg).WithParam(param)
		got := fault.From(overRPC(t, e))
		require.Equal(t, e.Reason, got.Reason)
		require.LessOrEqual(t, len(got.Message), 2048)
		require.LessOrEqual(t, len(got.Param), 2048)
	})
}
