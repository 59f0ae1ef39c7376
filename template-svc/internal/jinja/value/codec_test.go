package value

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// randomText is up to n characters of all widths, lone surrogates among them if wanted.
func randomText(rng *rand.Rand, n int, lone bool) string {
	var b []byte
	for range rng.IntN(n) {
		r := rune(rng.IntN([...]int{0x80, 0x100, 0xd800, 0x20, 0x100000}[rng.IntN(5)]))
		switch {
		case lone && rng.IntN(4) == 0:
			r = 0xd800 + rune(rng.IntN(0x800))
		case r >= 0xd800 && r <= 0xdfff:
			r = 'x'
		}
		b = AppendChar(b, r)
	}
	return string(b)
}

// TestCodecsReadWhatTheyWrite: each encoding gives back each text, surrogates by the handler for them, and 16 bits are
// what the standard library makes of the same text.
func TestCodecsReadWhatTheyWrite(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{
		"utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "U8", "utf_16LE",
	} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, uint64(len(encoding))))
			for range 300 {
				for _, errors := range []string{"strict", "surrogatepass"} {
					text := randomText(rng, 12, errors == "surrogatepass")
					if errors == "surrogatepass" && strings.HasPrefix(encoding, "utf-16") || encoding == "utf_16LE" {
						text = strings.Map(func(r rune) rune { // two halves that meet become one character
							if lone, ok := loneSurrogate(r); ok && lone >= 0xdc00 {
								return 'y'
							}
							return r
						}, text)
					}
					raw, err := Encode(meter(), text, encoding, errors)
					require.NoError(t, err)
					require.True(t, raw.IsBytes())
					back, err := Decode(meter(), raw.AsStr(), encoding, errors)
					require.NoError(t, err, "%q", raw.AsStr())
					require.Equal(t, text, back.AsStr())
					if encoding == "utf-16-be" && errors == "strict" {
						var want []byte
						for _, u := range utf16.Encode([]rune(text)) {
							want = binary.BigEndian.AppendUint16(want, u)
						}
						require.Equal(t, string(want), raw.AsStr())
					}
				}
			}
		})
	}
}

// TestDecodeNeverInvents: whatever the bytes, decoding ends with a text of whole characters or an error of Python's, and
// what is escaped goes back to the same bytes.
func TestDecodeNeverInvents(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	for range 3000 {
		raw := make([]byte, rng.IntN(9))
		for i := range raw {
			raw[i] = [...]byte{'a', 0, 0x80, 0xc3, 0xd8, 0xdc, 0xe2, 0xed, 0xa0, 0xf0, 0xf4, 0x9f, 0xff, 0xfe}[rng.IntN(14)]
		}
		for _, encoding := range []string{"utf-8", "ascii", "latin-1", "utf-16", "utf-16-be", "utf-32"} {
			for _, errors := range []string{"strict", "ignore", "replace", "backslashreplace", "surrogateescape", "surrogatepass", "none"} {
				text, err := Decode(meter(), string(raw), encoding, errors)
				if err != nil {
					require.True(t, pyerr.Is(err, pyerr.UnicodeDecode) || pyerr.Is(err, pyerr.Lookup), "%v", err)
					continue
				}
				require.Equal(t, text.AsStr(), strings.ToValidUTF8(text.AsStr(), "!"), "%x %s %s", raw, encoding, errors)
				if errors == "surrogateescape" && (encoding == "utf-8" || encoding == "ascii") {
					back, err := Encode(meter(), text.AsStr(), encoding, errors)
					require.NoError(t, err)
					require.Equal(t, string(raw), back.AsStr())
				}
			}
		}
	}
}
