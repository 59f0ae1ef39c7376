package jinja

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBytesAreTextsOfASCII: on ASCII a method of bytes does what the method of the same name does to a str. The
// arguments are drawn at random; both sides must give the same value or fail with the same type.
func TestBytesAreTextsOfASCII(t *testing.T) {
	t.Parallel()
	text := func(rng *rand.Rand, n int) string {
		var out strings.Builder
		for range rng.IntN(n + 1) {
			at := rng.IntN(9)
			out.WriteString([]string{"a", "c", "A", "C", " ", "1", "-", `\t`, `\n`}[at])
		}
		return "'" + out.String() + "'"
	}
	number := func(rng *rand.Rand) string { return fmt.Sprint(rng.IntN(12) - 3) }
	// A method with the kinds of its arguments: t is a text, n a number, 1 a text of one character.
	methods := []string{
		"lower", "upper", "swapcase", "capitalize", "title", "isalnum", "isalpha", "isascii", "isdigit", "islower", "isspace",
		"istitle", "isupper", "startswith t", "endswith t", "startswith tn", "endswith tnn", "find t", "find tn", "find tnn", "rfind t",
		"rfind tnn", "index t", "rindex tn", "count t", "count tnn", "split", "split t", "split tn", "rsplit", "rsplit t", "rsplit tn",
		"strip", "strip t", "lstrip t", "rstrip t", "removeprefix t", "removesuffix t", "partition t", "rpartition t",
		"replace tt", "replace ttn", "center n", "center n1", "ljust n1", "rjust n", "zfill n", "expandtabs", "expandtabs n",
	}
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			name, kinds, _ := strings.Cut(method, " ")
			rng := rand.New(rand.NewPCG(11, uint64(len(method))))
			for range 60 {
				self := text(rng, 12)
				var ofText, ofBytes []string
				for _, kind := range kinds {
					arg := number(rng)
					switch kind {
					case 't':
						arg = text(rng, 2)
					case '1':
						arg = "'*'"
					}
					ofText = append(ofText, arg)
					if kind != 'n' {
						arg += ".encode()"
					}
					ofBytes = append(ofBytes, arg)
				}
				want, wantErr := render(t, fmt.Sprintf("{{ [%s.%s(%s)] }}", self, name, strings.Join(ofText, ", ")), "{}")
				source := fmt.Sprintf("{{ [%s.encode().%s(%s)] }}", self, name, strings.Join(ofBytes, ", "))
				got, err := render(t, source, "{}")
				if wantErr != nil {
					require.Error(t, err, source)
					continue
				}
				require.NoError(t, err, source)
				plain := strings.NewReplacer("b'", "'").Replace(got)
				require.Equal(t, want, plain, source)
			}
		})
	}
}

// TestBytes has a row for each thing that a template can do with bytes; the texts are Python's.
func TestBytes(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"{{ 'é'.encode() }}":                                                                           `b'\xc3\xa9'`,
		"{{ 'it\\'s'.encode() }}":                                                                      `b"it's"`,
		"{{ 'é'.encode('utf-16') }}":                                                                   `b'\xff\xfe\xe9\x00'`,
		"{{ 'aé'.encode('ascii', 'ignore') }}":                                                         "b'a'",
		"{{ 'é'.encode('ascii', errors='xmlcharrefreplace') }}":                                        "b'&#233;'",
		"{{ 'aé'.encode().decode() }}":                                                                 "aé",
		"{{ 'é'.encode('latin-1').decode('utf-8', 'replace') }}":                                       "\ufffd",
		"{{ 'ab'.encode().hex() }}{{ 'abc'.encode().hex(':', 2) }}":                                    "616261:6263",
		"{{ ''.encode().fromhex('61 62') }}":                                                           "b'ab'",
		"{{ 'ab'.encode()[0] }}{{ 'ab'.encode()[-1:] }}":                                               "97b'b'",
		"{{ 'añ'.encode()|length }}":                                                                   "3",
		"{% for c in 'ab'.encode() %}{{ c }},{% endfor %}":                                             "97,98,",
		"{{ 'a'.encode() == 'a' }}{{ 'a'.encode() == 'a'.encode() }}{{ 'a'.encode() < 'b'.encode() }}": "FalseTrueTrue",
		"{{ 97 in 'a'.encode() }}{{ 'b'.encode() in 'abc'.encode() }}":                                 "TrueTrue",
		"{{ 'a'.encode() + 'b'.encode() * 2 }}":                                                        "b'abb'",
		"{{ '%s-%d'.encode() % ('a'.encode(), 7) }}":                                                   "b'a-7'",
		"{{ {'a'.encode(): 1, 'a': 2} }}":                                                              "{b'a': 1, 'a': 2}",
		"{{ 'a'.encode() is string }}{{ 'a'.encode() is sequence }}":                                   "FalseTrue",
		"{{ 'a'.encode() ~ 'b' }}{{ 'a'.encode()|string|length }}":                                     "b'a'b4",
		"{{ '12'.encode()|int + 1 }}{{ ' 1.5 '.encode()|float }}":                                      "131.5",
		"{{ 'ba'.encode()|sort }}{{ 'ab'.encode()|join('-') }}":                                        "[97, 98]97-98",
		"{{ (258).to_bytes(2) }}{{ (-2).to_bytes(1, signed=true) }}":                                   `b'\x01\x02'b'\xfe'`,
		"{{ (0).from_bytes([1, 2], 'little') }}":                                                       "513",
		"{{ true.from_bytes('a'.encode()) }}":                                                          "True",
		"{{ 1.0.fromhex('0x1.8p1') }}{{ 1.0.fromhex('-inf') }}":                                        "3.0-inf",
		"{{ ('<'|safe).encode().decode() is escaped }}":                                                "False",
		"{{ '{}'.format('a'.encode()) }}{{ '%s' % 'a'.encode() }}":                                     "b'a'b'a'",
		"{{ 'a b'.encode().split() }}{{ 'a'.encode().title().decode() }}":                              "[b'a', b'b']A",
	} {
		got, err := render(t, source, "{}")
		require.NoError(t, err, source)
		require.Equal(t, want, got, source)
	}
}

// TestBytesFaults has Python's types and messages.
func TestBytesFaults(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"{{ 'é'.encode('ascii') }}":                                  `UnicodeEncodeError: 'ascii' codec can't encode character '\xe9' in position 0: ordinal not in range(128)`,
		"{{ 'aéü'.encode('ascii') }}":                                "UnicodeEncodeError: 'ascii' codec can't encode characters in position 1-2: ordinal not in range(128)",
		"{{ 'é'.encode('latin-1').decode() }}":                       "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9 in position 0: unexpected end of data",
		"{{ 'a'.encode('klingon') }}":                                "LookupError: unknown encoding: klingon",
		"{{ 'é'.encode('ascii', 'x') }}":                             "LookupError: unknown error handler name 'x'",
		"{{ 'a'.encode(5) }}":                                        "TypeError: encode() argument 'encoding' must be str, not int",
		"{{ 'a'.encode() + 'b' }}":                                   "TypeError: can't concat str to bytes",
		"{{ 'b' + 'a'.encode() }}":                                   `TypeError: can only concatenate str (not "bytes") to str`,
		"{{ 'a'.encode() < 'b' }}":                                   "TypeError: '<' not supported between instances of 'bytes' and 'str'",
		"{{ 'a' in 'a'.encode() }}":                                  "TypeError: a bytes-like object is required, not 'str'",
		"{{ 300 in 'a'.encode() }}":                                  "ValueError: byte must be in range(0, 256)",
		"{{ 'a'.encode().replace('a', 'b') }}":                       "TypeError: a bytes-like object is required, not 'str'",
		"{{ 'a'.encode()|tojson }}":                                  "TypeError: Object of type bytes is not JSON serializable",
		"{{ ','.join(['a'.encode()]) }}":                             "TypeError: sequence item 0: expected str instance, bytes found",
		"{{ 'a'.encode().join(['b']) }}":                             "TypeError: sequence item 0: expected a bytes-like object, str found",
		"{{ ''.encode().fromhex('6') }}":                             "ValueError: non-hexadecimal number found in fromhex() arg at position 1",
		"{{ (300).to_bytes(1) }}":                                    "OverflowError: int too big to convert",
		"{{ (-1).to_bytes(1) }}":                                     "OverflowError: can't convert negative int to unsigned",
		"{{ (1).to_bytes(1, 'middle') }}":                            "ValueError: byteorder must be either 'little' or 'big'",
		"{{ (1).from_bytes('a') }}":                                  "TypeError: cannot convert 'str' object to bytes",
		"{{ (1).from_bytes([256]) }}":                                "ValueError: bytes must be in range(0, 256)",
		"{{ 1.0.fromhex('0x') }}":                                    "ValueError: invalid hexadecimal floating-point string",
		"{{ 1.0.fromhex('0x1p9999') }}":                              "OverflowError: hexadecimal value too large to represent as a float",
		"{{ 'a'.encode().__class__ }}{{ 'a'.encode().__class__.x }}": "SecurityError: access to attribute '__class__' of 'bytes' object is unsafe.",
		"{{ 'a'.encode().nope.x }}":                                  "UndefinedError: 'bytes object' has no attribute 'nope'",
	} {
		_, err := render(t, source, "{}")
		var e *Error
		require.ErrorAs(t, err, &e, source)
		require.Equal(t, want, e.Type+": "+e.Message, source)
	}
}
