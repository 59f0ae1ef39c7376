package conf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size in bytes, written "64MiB", "1GB" or as a plain number.
type Bytes int64

// Sizes by power of 1,024, for defaults in code.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

// byteUnit is a suffix and what it multiplies by. Longer suffixes come before the ones that end them.
type byteUnit struct {
	suffix string
	factor int64
}

// byteUnits is a function because a package-level slice could be changed.
func byteUnits() []byteUnit {
	return []byteUnit{
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"TiB", 1 << 40},
		{"KB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"TB", 1e12},
		{"B", 1},
	}
}

// UnmarshalText reads a size. Negative sizes and sizes beyond 63 bits are refused.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, factor := strings.TrimSpace(string(text)), int64(1)
	for _, u := range byteUnits() {
		if cut, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(cut), u.factor
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return fmt.Errorf("%q is not a size; write a number with KiB, MiB, GiB, KB, MB, GB or nothing", text)
	}
	*b = Bytes(n * factor)
	return nil
}

// MarshalText writes the largest binary unit that divides the size.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String is the text of MarshalText.
func (b Bytes) String() string {
	for _, u := range []byteUnit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if b != 0 && int64(b)%u.factor == 0 {
			return strconv.FormatInt(int64(b)/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
