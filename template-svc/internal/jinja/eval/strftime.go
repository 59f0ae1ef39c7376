package eval

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// strftime writes t as the C library does in the C locale, with glibc's flags
// "-", "_", "0", "^", "#" and widths. %Z and %z are empty: the time is naive.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		start := i
		i++
		flag := byte(0)
		upper := false
		for i < len(format) && strings.IndexByte("-_0^#", format[i]) >= 0 {
			if format[i] == '^' || format[i] == '#' {
				upper = true
			} else {
				flag = format[i]
			}
			i++
		}
		width := 0
		for i < len(format) && format[i] >= '0' && format[i] <= '9' && width < 1000 {
			width = width*10 + int(format[i]-'0')
			i++
		}
		if i+1 < len(format) && (format[i] == 'E' || format[i] == 'O') && format[i+1] != '|' {
			i++
		}
		if i >= len(format) {
			b.WriteString(format[start:])
			break
		}
		text, ok := field(t, format[i], flag, width)
		if !ok || format[i] == 'f' && i != start+1 {
			text = format[start : i+1]
			if n := width - len(text); n > 0 {
				text = strings.Repeat(" ", n) + text
			}
		}
		if upper && format[i] != 'P' {
			text = strings.ToUpper(text)
		}
		b.WriteString(text)
	}
	return b.String()
}

// field writes one conversion; ok is false for an unknown one.
func field(t time.Time, code, flag byte, width int) (text string, ok bool) {
	if n, digits, pad, ok := numberField(t, code); ok {
		return padNumber(n, max(digits, width), pad, flag), true
	}
	switch code {
	case 'a':
		text = t.Format("Mon")
	case 'A':
		text = t.Format("Monday")
	case 'b', 'h':
		text = t.Format("Jan")
	case 'B':
		text = t.Format("January")
	case 'p':
		text = t.Format("PM")
	case 'P':
		text = t.Format("pm")
	case 'c':
		text = t.Format("Mon Jan _2 15:04:05 2006")
	case 'D', 'x':
		text = t.Format("01/02/06")
	case 'F':
		text = t.Format("2006-01-02")
	case 'r':
		text = t.Format("03:04:05 PM")
	case 'R':
		text = t.Format("15:04")
	case 'T', 'X':
		text = t.Format("15:04:05")
	case 'f':
		text = fmt.Sprintf("%06d", t.Nanosecond()/1000)
	case 'n':
		text = "\n"
	case 't':
		text = "\t"
	case '%':
		text = "%"
	case 'z':
		return "", true
	case 'Z':
		text = ""
	default:
		return "", false
	}
	if n := width - len(text); n > 0 {
		text = strings.Repeat(" ", n) + text
	}
	return text, true
}

// numberField gives a numeric conversion with its usual width and padding.
func numberField(t time.Time, code byte) (n int64, digits int, pad byte, ok bool) {
	isoYear, isoWeek := t.ISOWeek()
	hour12 := (t.Hour()+11)%12 + 1
	number := func(n, digits int) (int64, int, byte, bool) { return int64(n), digits, '0', true }
	switch code {
	case 'd':
		return number(t.Day(), 2)
	case 'e':
		return int64(t.Day()), 2, ' ', true
	case 'm':
		return number(int(t.Month()), 2)
	case 'y':
		return number(t.Year()%100, 2)
	case 'Y':
		return number(t.Year(), 1)
	case 'C':
		return number(t.Year()/100, 2)
	case 'H':
		return number(t.Hour(), 2)
	case 'k':
		return int64(t.Hour()), 2, ' ', true
	case 'I':
		return number(hour12, 2)
	case 'l':
		return int64(hour12), 2, ' ', true
	case 'M':
		return number(t.Minute(), 2)
	case 'S':
		return number(t.Second(), 2)
	case 'j':
		return number(t.YearDay(), 3)
	case 'u':
		return number((int(t.Weekday())+6)%7+1, 1)
	case 'w':
		return number(int(t.Weekday()), 1)
	case 'U':
		return number((t.YearDay()+6-int(t.Weekday()))/7, 2)
	case 'W':
		return number((t.YearDay()+6-(int(t.Weekday())+6)%7)/7, 2)
	case 'V':
		return number(isoWeek, 2)
	case 'G':
		return number(isoYear, 1)
	case 'g':
		return number(isoYear%100, 2)
	case 's':
		return t.Unix(), 1, '0', true
	}
	return 0, 0, 0, false
}

// padNumber writes a number to its width; the flags "-", "_" and "0" choose
// no padding, blanks or zeros.
func padNumber(n int64, width int, pad, flag byte) string {
	s := strconv.FormatInt(n, 10)
	switch flag {
	case '-':
		return s
	case '_':
		pad = ' '
	case '0':
		pad = '0'
	}
	if k := width - len(s); k > 0 {
		s = strings.Repeat(string(pad), k) + s
	}
	return s
}
