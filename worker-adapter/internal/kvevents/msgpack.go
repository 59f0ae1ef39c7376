package kvevents

import (
	"encoding/binary"
	"errors"
	"math"
)

// errTruncated means that the bytes end inside a value.
var errTruncated = errors.New("msgpack ends inside a value")

// errShape means that a value has another type than the field allows.
var errShape = errors.New("unexpected msgpack type")

// errTooMany means that a batch holds more than any step makes.
var errTooMany = errors.New("more items than a step can have")

// First bytes of msgpack values.
const (
	cNil      = 0xc0
	cFalse    = 0xc2
	cTrue     = 0xc3
	cBin8     = 0xc4
	cBin32    = 0xc6
	cExt8     = 0xc7
	cExt32    = 0xc9
	cFloat32  = 0xca
	cFloat64  = 0xcb
	cUint8    = 0xcc
	cUint16   = 0xcd
	cUint32   = 0xce
	cUint64   = 0xcf
	cInt8     = 0xd0
	cInt16    = 0xd1
	cInt32    = 0xd2
	cInt64    = 0xd3
	cFixExt1  = 0xd4
	cFixExt16 = 0xd8
	cStr8     = 0xd9
	cStr32    = 0xdb
	cArray16  = 0xdc
	cArray32  = 0xdd
	cMap16    = 0xde
	cMap32    = 0xdf
	cNegFix   = 0xe0
)

// reader walks msgpack bytes. After an error pos is where the faulty value begins.
type reader struct {
	buf []byte
	pos int
}

// peek returns the next value's first byte.
func (r *reader) peek() (byte, error) {
	if r.pos >= len(r.buf) {
		return 0, errTruncated
	}
	return r.buf[r.pos], nil
}

// isNil consumes a nil if one is next.
func (r *reader) isNil() bool {
	if r.pos < len(r.buf) && r.buf[r.pos] == cNil {
		r.pos++
		return true
	}
	return false
}

// number reads the big-endian number of width bytes after the first byte.
func (r *reader) number(width int) (uint64, error) {
	b := r.buf[r.pos+1:]
	if len(b) < width {
		return 0, errTruncated
	}
	r.pos += 1 + width
	switch width {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), nil
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), nil
	}
	return binary.BigEndian.Uint64(b), nil
}

// integer reads any integer. Negative ones come as their two's complement with neg true.
func (r *reader) integer() (v uint64, neg bool, err error) {
	c, err := r.peek()
	switch {
	case err != nil:
		return 0, false, err
	case c < 0x80:
		r.pos++
		return uint64(c), false, nil
	case c >= cNegFix:
		r.pos++
		return uint64(int64(int8(c))), true, nil
	case c >= cUint8 && c <= cUint64:
		v, err = r.number(1 << (c - cUint8))
		return v, false, err
	case c >= cInt8 && c <= cInt64:
		width := 1 << (c - cInt8)
		v, err = r.number(width)
		shift := 64 - 8*width
		s := int64(v<<shift) >> shift
		return uint64(s), s < 0, err
	}
	return 0, false, errShape
}

// float reads a float or an integer as float64.
func (r *reader) float() (float64, error) {
	c, err := r.peek()
	switch {
	case err != nil:
		return 0, err
	case c == cFloat64:
		v, err := r.number(8)
		return math.Float64frombits(v), err
	case c == cFloat32:
		v, err := r.number(4)
		return float64(math.Float32frombits(uint32(v))), err
	}
	v, neg, err := r.integer()
	if neg {
		return float64(int64(v)), err
	}
	return float64(v), err
}

// text reads a string or byte string. The bytes belong to the buffer.
func (r *reader) text() (b []byte, str bool, err error) {
	c, err := r.peek()
	if err != nil {
		return nil, false, err
	}
	start := r.pos
	var n uint64
	switch {
	case c >= 0xa0 && c <= 0xbf:
		n, str = uint64(c&0x1f), true
		r.pos++
	case c >= cStr8 && c <= cStr32:
		n, err = r.number(1 << (c - cStr8))
		str = true
	case c >= cBin8 && c <= cBin32:
		n, err = r.number(1 << (c - cBin8))
	default:
		return nil, false, errShape
	}
	if err != nil || n > uint64(len(r.buf)-r.pos) {
		r.pos = start
		return nil, false, errTruncated
	}
	b = r.buf[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b, str, nil
}

// array reads an array's header. The length is at most the number of bytes left: each element has at least one.
func (r *reader) array() (int, error) { return r.container(0x90, cArray16) }

// object reads a map's header.
func (r *reader) object() (int, error) { return r.container(0x80, cMap16) }

// container reads a header whose short form begins at fix and whose 16-bit form is long.
func (r *reader) container(fix, long byte) (int, error) {
	c, err := r.peek()
	if err != nil {
		return 0, err
	}
	start := r.pos
	var n uint64
	switch {
	case c&0xf0 == fix:
		n = uint64(c & 0x0f)
		r.pos++
	case c == long || c == long+1:
		n, err = r.number(2 << (c - long))
	default:
		return 0, errShape
	}
	if err != nil || n > uint64(len(r.buf)-r.pos) {
		r.pos = start
		return 0, errTruncated
	}
	return int(n), nil
}
