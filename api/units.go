package api

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
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

// ParseCPU parses "500m", "0.5" or "2".
func ParseCPU(s string) (CPU, error) {
	num, milli := strings.CutSuffix(s, "m")
	f, err := parseNumber(num)
	if err != nil {
		return 0, fmt.Errorf("%q is not an amount of cpu: write cores (2, 0.5) or thousandths (500m)", s)
	}
	if !milli {
		f *= 1000
	}
	if f > float64(MaxCPU) {
		return 0, fmt.Errorf("%q is more than %s, the largest amount of cpu", s, MaxCPU)
	}
	if f != math.Trunc(f) {
		return 0, fmt.Errorf("%q is finer than a thousandth of a core (1m)", s)
	}
	return CPU(f), nil
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

// UnmarshalText reads c as in a descriptor.
func (c *CPU) UnmarshalText(b []byte) (err error) { *c, err = ParseCPU(string(b)); return err }

var byteUnits = []struct {
	suffix string
	factor float64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40},
	{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"", 1},
}

// ParseBytes parses "128Mi", "1.5Gi", "200M" or "4096".
func ParseBytes(s string) (Bytes, error) {
	for _, u := range byteUnits {
		num, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		f, err := parseNumber(num)
		if err != nil {
			break
		}
		f *= u.factor
		if f > float64(MaxBytes) {
			return 0, fmt.Errorf("%q is more than 1024Ti, the largest amount", s)
		}
		if f != math.Trunc(f) {
			return 0, fmt.Errorf("%q is not a whole number of bytes", s)
		}
		return Bytes(f), nil
	}
	return 0, fmt.Errorf("%q is not an amount of bytes: write 128Mi, 1Gi or 200M", s)
}

// String writes the largest power of 1024 that divides b.
func (b Bytes) String() string {
	for i := 3; i >= 0; i-- {
		if u := byteUnits[i]; b != 0 && b%Bytes(u.factor) == 0 {
			return strconv.FormatInt(int64(b)/int64(u.factor), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText writes b as in a descriptor.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads b as in a descriptor.
func (b *Bytes) UnmarshalText(t []byte) (err error) { *b, err = ParseBytes(string(t)); return err }

// ParseDuration parses "20ms", "1.5s", "1h30m"; a bare number has no unit and
// is refused, but for 0.
func ParseDuration(s string) (Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("%q is not a duration: write 20ms, 1.5s, 2m or 1h30m", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	if Duration(d) > MaxDuration {
		return 0, fmt.Errorf("%q is more than a year", s)
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

// parseNumber accepts plain non-negative decimals: no sign, exponent, hex,
// underscore, NaN or infinity, which strconv would let through.
func parseNumber(s string) (float64, error) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(s, 64)
}
