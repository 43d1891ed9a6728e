package api

import (
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// CPU is an amount of processor in thousandths of a core, written "500m" or "2".
type CPU int64

// Bytes is an amount of memory or disk, written "128Mi" (powers of 1024),
// "128M" (powers of 1000) or a plain number of bytes.
type Bytes int64

// Duration is a span of time, written "20ms", "1.5s", "2m", "1h30m".
type Duration time.Duration

// Bounds of a single amount; more is a typing mistake.
const (
	MaxCPU      CPU      = 4096 * 1000 // 4096 cores
	MaxBytes    Bytes    = 1 << 50     // 1 PiB
	MaxDuration Duration = Duration(365 * 24 * time.Hour)
)

// maxSum bounds what may be added up of many amounts: the capacity of a cluster
// is written in the same units as the demand of an instance.
const maxSum = 1 << 60

// ParseCPU parses "500m", "0.5" or "2", at most MaxCPU. The error says what to
// write instead.
func ParseCPU(s string) (CPU, error) { return parseCPU(s, MaxCPU) }

func parseCPU(s string, most CPU) (CPU, error) {
	num, milli := strings.CutSuffix(s, "m")
	factor := int64(1000)
	if milli {
		factor = 1
	}
	n, exact, ok := parseAmount(num, factor, int64(most))
	switch {
	case !ok:
		return 0, &amountError{quote(s) + " is not an amount of cpu", "write cores (2, 0.5) or thousandths (500m)"}
	case n > int64(most):
		return 0, &amountError{quote(s) + " is too much cpu", "write at most " + most.String()}
	case !exact:
		return 0, &amountError{quote(s) + " is finer than a thousandth of a core", "write whole thousandths (1m)"}
	}
	return CPU(n), nil
}

// String writes whole cores as "2", others as "500m".
func (c CPU) String() string {
	if c%1000 == 0 {
		return strconv.FormatInt(int64(c)/1000, 10)
	}
	return strconv.FormatInt(int64(c), 10) + "m"
}

// MarshalText writes c as in a descriptor.
func (c CPU) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText wrote, sums of many amounts too.
func (c *CPU) UnmarshalText(b []byte) (err error) { *c, err = parseCPU(string(b), maxSum); return err }

// byteUnits: the powers of 1024 come first, smallest first, for Bytes.String.
var byteUnits = []struct {
	suffix string
	factor int64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40},
	{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12},
}

// ParseBytes parses "128Mi", "1.5Gi", "200M" or "4096", at most MaxBytes. The
// error says what to write instead.
func ParseBytes(s string) (Bytes, error) { return parseBytes(s, MaxBytes) }

func parseBytes(s string, most Bytes) (Bytes, error) {
	num, factor := s, int64(1)
	for _, u := range byteUnits {
		if n, fits := strings.CutSuffix(s, u.suffix); fits {
			num, factor = n, u.factor
			break
		}
	}
	n, exact, ok := parseAmount(num, factor, int64(most))
	switch {
	case !ok:
		return 0, &amountError{quote(s) + " is not an amount of bytes", "write 128Mi, 1Gi or 200M"}
	case n > int64(most):
		return 0, &amountError{quote(s) + " is too many bytes", "write at most " + most.String()}
	case !exact:
		return 0, &amountError{quote(s) + " is not a whole number of bytes", "write it in a smaller unit"}
	}
	return Bytes(n), nil
}

// String writes the largest power of 1024 that divides b.
func (b Bytes) String() string {
	for i := 3; i >= 0; i-- {
		if u := byteUnits[i]; b != 0 && int64(b)%u.factor == 0 {
			return strconv.FormatInt(int64(b)/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText writes b as in a descriptor.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads what MarshalText wrote, sums of many amounts too.
func (b *Bytes) UnmarshalText(t []byte) (err error) {
	*b, err = parseBytes(string(t), maxSum)
	return err
}

// ParseDuration parses "20ms", "1.5s", "1h30m"; a bare number has no unit and
// is refused, but for 0.
func ParseDuration(s string) (Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err == nil && d < 0:
		return 0, &amountError{quote(s) + " is negative", "write 0 or more"}
	case err != nil || strings.HasPrefix(s, "+"):
		return 0, &amountError{quote(s) + " is not a duration", "write 20ms, 1.5s, 2m or 1h30m"}
	case Duration(d) > MaxDuration:
		return 0, &amountError{quote(s) + " is more than a year", "write at most " + MaxDuration.String()}
	}
	return Duration(d), nil
}

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes d without empty trailing units: "2m", not "2m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes d as in a descriptor.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads d as in a descriptor.
func (d *Duration) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDuration(string(b))
	return err
}

// amountError is a text that is no amount: what is wrong, and what to write.
type amountError struct{ what, remedy string }

func (e *amountError) Error() string { return e.what + ": " + e.remedy }

// maxAmountDigits bounds the arithmetic; the largest amounts have 16 digits.
const maxAmountDigits = 40

// parseAmount reads a plain non-negative decimal and multiplies it by factor,
// exactly: in floating point 1.001 cores are not 1001 thousandths. It refuses
// what strconv would let through (sign, exponent, hex, underscore, infinity) and
// a leading zero, which is an octal number to some readers. Whatever is greater
// than limit is returned as limit+1; exact is false where n is not all of it.
func parseAmount(s string, factor, limit int64) (n int64, exact, ok bool) {
	whole, frac, point := strings.Cut(s, ".")
	if len(s) > maxAmountDigits || whole == "" || point && frac == "" ||
		strings.Trim(whole+frac, "0123456789") != "" || len(whole) > 1 && whole[0] == '0' {
		return 0, false, false
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return 0, false, false
	}
	r.Mul(r, new(big.Rat).SetInt64(factor))
	if r.Cmp(new(big.Rat).SetInt64(limit)) > 0 {
		return limit + 1, true, true
	}
	return new(big.Int).Quo(r.Num(), r.Denom()).Int64(), r.IsInt(), true
}

// quote writes user input for a message: in quotes, escaped, cut to a length
// that fits into a line.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		cut := most - 1
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strconv.Quote(s)
}
