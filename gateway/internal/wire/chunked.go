package wire

import "errors"

// errChunk is a violation of the chunked coding.
var errChunk = errors.New("malformed chunked body")

// maxChunkLine bounds a chunk's size line and a trailer line, in bytes.
const maxChunkLine = 4096

// chunkState is where a decoder stands.
type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkExtension
	chunkData
	chunkDataEnd
	chunkTrailer
	chunkDone
)

// chunked decodes the chunked transfer coding in place. Its zero value stands at the start of a body.
type chunked struct {
	state chunkState
	left  uint64 // data bytes left, or the size read so far
	line  int    // bytes of the current size or trailer line
}

// decode turns the raw bytes b into payload at the front of b. used is how many raw bytes were consumed; it is less than
// len(b) only when the body ended.
func (d *chunked) decode(b []byte) (payload, used int, err error) {
	w, i := 0, 0
	for i < len(b) && d.state != chunkDone {
		if d.state == chunkData {
			n := min(uint64(len(b)-i), d.left)
			copy(b[w:], b[i:i+int(n)])
			w, i = w+int(n), i+int(n)
			if d.left -= n; d.left == 0 {
				d.state, d.line = chunkDataEnd, 0
			}
			continue
		}
		if err := d.frame(b[i]); err != nil {
			return w, i, err
		}
		i++
	}
	return w, i, nil
}

// frame consumes one byte that is not data.
func (d *chunked) frame(c byte) error {
	if d.line++; d.line > maxChunkLine {
		return errChunk
	}
	switch d.state {
	case chunkSize:
		return d.size(c)
	case chunkExtension:
		if c == '\n' {
			d.sized()
		}
	case chunkDataEnd:
		switch {
		case c == '\r' && d.line == 1:
		case c == '\n':
			d.state, d.line = chunkSize, 0
		default:
			return errChunk
		}
	case chunkTrailer:
		d.trailer(c)
	case chunkData, chunkDone:
	}
	return nil
}

// size consumes one byte of a size line.
func (d *chunked) size(c byte) error {
	v := hexValue(c)
	switch {
	case v < 16:
		if d.left > 1<<56 {
			return errChunk
		}
		d.left = d.left<<4 | uint64(v)
		return nil
	case d.line == 1:
		return errChunk
	case c == '\n':
		d.sized()
	case c == ';' || c == '\r' || c == ' ' || c == '\t':
		d.state = chunkExtension
	default:
		return errChunk
	}
	return nil
}

// sized ends a size line.
func (d *chunked) sized() {
	d.line = 0
	d.state = chunkData
	if d.left == 0 {
		d.state = chunkTrailer
	}
}

// trailer consumes one byte of the trailer section; an empty line ends the body. line counts without CR.
func (d *chunked) trailer(c byte) {
	switch c {
	case '\r':
		d.line--
	case '\n':
		if d.line == 1 {
			d.state = chunkDone
		}
		d.line = 0
	}
}

func hexValue(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
