package kvevent

import "encoding/binary"

// appendUint writes an unsigned integer in its smallest form, as msgspec does: consumers that compare bytes with a
// real worker's depend on it.
func appendUint(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(dst, byte(n))
	case n < 1<<8:
		return append(dst, 0xcc, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 0xcd), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcf), n)
}

// appendInt writes a signed integer in its smallest form; what is not negative is written unsigned.
func appendInt(dst []byte, n int64) []byte {
	switch {
	case n >= 0:
		return appendUint(dst, uint64(n))
	case n >= -1<<5:
		return append(dst, byte(n))
	case n >= -1<<7:
		return append(dst, 0xd0, byte(n))
	case n >= -1<<15:
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(n))
	case n >= -1<<31:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(n))
}

// appendOptInt writes 0 as nil: vLLM numbers adapters and windows from 1.
func appendOptInt(dst []byte, n int) []byte {
	if n == 0 {
		return append(dst, nilByte)
	}
	return appendInt(dst, int64(n))
}

// appendString writes UTF-8 text with the shortest length prefix.
func appendString(dst []byte, s string) []byte {
	switch n := len(s); {
	case n < 1<<5:
		dst = append(dst, 0xa0|byte(n))
	case n < 1<<8:
		dst = append(dst, 0xd9, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xda), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n))
	}
	return append(dst, s...)
}

// appendOptString writes "" as nil: names and media are never empty on the wire.
func appendOptString(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, nilByte)
	}
	return appendString(dst, s)
}

// appendArrayLen opens an array of n elements.
func appendArrayLen(dst []byte, n int) []byte {
	switch {
	case n < 1<<4:
		return append(dst, 0x90|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 0xdc), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xdd), uint32(n))
}

// appendMapLen serves maps of fewer than 16 keys, which all of ours are.
func appendMapLen(dst []byte, n int) []byte { return append(dst, 0x80|byte(n)) }
