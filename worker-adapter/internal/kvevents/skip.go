package kvevents

// skip moves past one value of any type and depth, without recursion: what is left to read is a number.
func (r *reader) skip() error {
	for left := uint64(1); left > 0; {
		left--
		inner, err := r.skipHead()
		if err != nil {
			return err
		}
		left += inner
		if left > uint64(len(r.buf)-r.pos) {
			return errTruncated
		}
	}
	return nil
}

// skipHead moves past a scalar or a container's header and returns how many values the container holds.
func (r *reader) skipHead() (inner uint64, err error) {
	c, err := r.peek()
	switch {
	case err != nil:
		return 0, err
	case c >= 0x90 && c <= 0x9f || c == cArray16 || c == cArray32:
		n, err := r.array()
		return uint64(n), err
	case c >= 0x80 && c <= 0x8f || c == cMap16 || c == cMap32:
		n, err := r.object()
		return 2 * uint64(n), err
	case c >= 0xa0 && c <= 0xbf, c >= cStr8 && c <= cStr32, c >= cBin8 && c <= cBin32:
		_, _, err := r.text()
		return 0, err
	case c >= cExt8 && c <= cExt32:
		n, err := r.number(1 << (c - cExt8))
		return 0, r.advance(n+1, err)
	case c >= cFixExt1 && c <= cFixExt16:
		return 0, r.advance(2+1<<(c-cFixExt1), nil)
	case c >= cFloat32 && c <= cFloat64:
		_, err := r.number(4 << (c - cFloat32))
		return 0, err
	case c == cNil, c == cFalse, c == cTrue:
		return 0, r.advance(1, nil)
	}
	_, _, err = r.integer()
	return 0, err
}

// advance moves past n bytes unless err is set.
func (r *reader) advance(n uint64, err error) error {
	if err != nil {
		return err
	}
	if n > uint64(len(r.buf)-r.pos) {
		return errTruncated
	}
	r.pos += int(n)
	return nil
}
