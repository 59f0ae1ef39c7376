package harmony

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// jsonOf writes a value as Rust's serde_json does: compact, text raw but for controls and quotes.
func jsonOf(v value.Value) string {
	var out strings.Builder
	writeJSON(&out, v)
	return out.String()
}

func writeJSON(out *strings.Builder, v value.Value) {
	switch v.Kind() {
	case value.KindBool:
		out.WriteString(strconv.FormatBool(v.Truth()))
	case value.KindInt:
		out.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case value.KindBig:
		out.WriteString(bigText(v.AsBig()))
	case value.KindFloat:
		out.WriteString(floatText(v.AsFloat()))
	case value.KindStr:
		out.WriteString(quoted(v.AsStr()))
	case value.KindList:
		out.WriteByte('[')
		for i, c := range v.Cells() {
			if i > 0 {
				out.WriteByte(',')
			}
			writeJSON(out, c)
		}
		out.WriteByte(']')
	case value.KindDict:
		out.WriteByte('{')
		for i, e := range v.AsDict().Entries() {
			if i > 0 {
				out.WriteByte(',')
			}
			out.WriteString(quoted(e.Key.AsStr()) + ":")
			writeJSON(out, e.Val)
		}
		out.WriteByte('}')
	default:
		out.WriteString("null")
	}
}

// quoted is a JSON string with the escapes that cannot be left out.
func quoted(s string) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) //nolint:errchkjson // text can always be written
	out := strings.TrimSuffix(buf.String(), "\n")
	return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029", `\\`, `\\`).Replace(out)
}

// bigText writes an integer beyond 64 bits as the float that it is read as.
func bigText(b *big.Int) string {
	if b.IsUint64() {
		return b.String()
	}
	return shortest(reread(b.String()))
}

// floatText writes a float as it is read from Python's text of it.
func floatText(f float64) string {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return "null"
	}
	return shortest(reread(strconv.FormatFloat(f, 'g', -1, 64)))
}

// reread reads a number's text as serde_json does: the digits that fit 64 bits as one integer, then one multiplication
// or division by a power of ten. For more than 15 digits that is not always the nearest float.
func reread(text string) float64 {
	text, negative := strings.CutPrefix(text, "-")
	mantissa, exponentText, _ := strings.Cut(text, "e")
	exponent, _ := strconv.Atoi(exponentText)
	whole, fraction, _ := strings.Cut(mantissa, ".")
	significand, full := uint64(0), false
	for i, d := range whole + fraction {
		next := significand*10 + uint64(d-'0')
		full = full || significand > (math.MaxUint64-uint64(d-'0'))/10
		switch {
		case !full && i < len(whole):
			significand = next
		case !full:
			significand = next
			exponent--
		case i < len(whole):
			exponent++
		}
	}
	f := float64(significand)
	for ; exponent < -308; exponent += 308 {
		f /= 1e308
	}
	if exponent < 0 {
		f /= math.Pow10(-exponent)
	} else {
		f *= math.Pow10(exponent)
	}
	if negative {
		return -f
	}
	return f
}

// Floats from 1e-5 to below 1e16 are written without exponent.
const (
	leastPlain = 1e-5
	mostPlain  = 1e16
)

// shortest writes the fewest digits that give the float back.
func shortest(f float64) string {
	if a := math.Abs(f); a == 0 || (a >= leastPlain && a < mostPlain) {
		text := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	sign := exponent[:1]
	return mantissa + "e" + sign + strings.TrimLeft(exponent[1:], "0")
}
