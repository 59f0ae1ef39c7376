package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// truncate leaves texts that are only a little too long as they are.

var truncateSignature = &signature{
	name: "do_truncate", required: 1, hidden: 1,
	params: []string{"s", "length", "killwords", "end", "leeway"},
}

// defaultLeeway is how much longer than length a text may be uncut.
const defaultLeeway = 5

// truncateFilter is truncate(s, length=255, killwords=False, end='...',
// leeway=5): texts up to length + leeway stay whole; lengths count code
// points.
func truncateFilter(r *run, a *args) (value.Value, error) {
	b, err := truncateSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	end := "..."
	if !isMissing(b[3]) {
		if !b[3].IsStr() {
			return value.Value{}, typeError("object of type '%s' has no len()", b[3].TypeName())
		}
		end = b[3].AsStr()
	}
	length, err := asInt(b[1], 255)
	if !isMissing(b[1]) && !b[1].IsNumber() {
		_, err = value.Compare(&r.m, value.GreaterEqual, b[1], value.Int(0))
	}
	if err != nil {
		return value.Value{}, err
	}
	leeway := int64(defaultLeeway)
	if given(b[4]) {
		if leeway, err = asInt(b[4], defaultLeeway); err != nil {
			return value.Value{}, err
		}
	}
	cut := length - int64(value.RuneCount(end))
	if cut < 0 {
		return value.Value{}, pyerr.Newf("AssertionError", "expected length >= %d, got %d", value.RuneCount(end), length)
	}
	if leeway < 0 {
		return value.Value{}, pyerr.Newf("AssertionError", "expected leeway >= 0, got %d", leeway)
	}
	n, err := b[0].Len()
	if err != nil {
		return value.Value{}, err
	}
	if int64(n) <= length+leeway {
		return b[0], nil
	}
	if !b[0].IsStr() {
		v, err := sliceOf(r, b[0], [3]value.Value{value.None, value.Int(cut), value.None})
		if err == nil {
			err = errNoAttribute(v, "rsplit")
		}
		return value.Value{}, err
	}
	s := b[0].AsStr()
	s = s[:value.Offset(s, int(cut))]
	if !b[2].Truth() {
		if i := strings.LastIndexByte(s, ' '); i >= 0 {
			s = s[:i]
		}
	}
	if b[0].IsMarkup() && !b[3].IsMarkup() {
		end = value.Escape(end)
	}
	return r.made(s+end, b[0])
}
