package api

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api/internal/words"
)

// CPU is an amount of processor in thousandths of a core, written "500m" or "2".
type CPU int64

// Units is a number of devices in thousandths of one, written "2", "0.5" or "500m".
type Units int64

// Bytes is an amount of memory or disk, written "128Mi" (powers of 1024),
// "128M" (powers of 1000) or a plain number of bytes.
type Bytes int64

// Duration is a span of time, written "20ms", "1.5s", "2m", "1h30m".
type Duration time.Duration

// Distance in metres, written "20km", "1.5km" or "500m".
type Distance int64

// Bitrate in bits per second, written "10Mbps" (bps, kbps, Mbps, Gbps: powers of
// 1000).
type Bitrate int64

// FileMode is the permission bits of a file, written in octal as for chmod:
// "0600" or "600".
type FileMode int64

// Bounds of a single amount; more is a typing mistake.
const (
	MaxCPU      CPU      = 4096 * 1000 // 4096 cores
	MaxBytes    Bytes    = 1 << 50     // 1 PiB
	MaxUnits    Units    = MaxDevices * 1000
	MaxDuration Duration = Duration(365 * 24 * time.Hour)
	MaxDistance Distance = 20_038_000        // half way around the Earth
	MaxBitrate  Bitrate  = 1_000_000_000_000 // 1 Tbit/s
	MinBitrate  Bitrate  = 64_000            // below it a single packet waits for long
)

// maxSum bounds what may be added up of many amounts: the capacity of a cluster
// is written in the same units as the demand of an instance.
const maxSum = 1 << 60

// ParseCPU parses "500m", "0.5" or "2", at most MaxCPU. The error says what to
// write instead.
func ParseCPU(s string) (CPU, error) { return parseCPU(s, MaxCPU) }

func parseCPU(s string, most CPU) (CPU, error) {
	n, err := parseThousandths(s, int64(most), thousandths{
		what: " is not an amount of cpu", write: "write cores (2, 0.5) or thousandths (500m)",
		much: " is too much cpu", most: most.String(),
		fine: " is finer than a thousandth of a core", least: "write whole thousandths (1m)",
	})
	return CPU(n), err
}

// thousandths are the words of what is counted in them: what is wrong, and what to write.
type thousandths struct{ what, write, much, most, fine, least string }

// parseThousandths parses "500m", "0.5" or "2".
func parseThousandths(s string, most int64, say thousandths) (int64, error) {
	num, milli := strings.CutSuffix(s, "m")
	factor := int64(1000)
	if milli {
		factor = 1
	}
	n, exact, ok := parseAmount(num, factor, most)
	switch {
	case !ok:
		return 0, &ValueError{words.Quote(s) + say.what, say.write}
	case n > most:
		return 0, &ValueError{words.Quote(s) + say.much, "write at most " + say.most}
	case !exact:
		return 0, &ValueError{words.Quote(s) + say.fine, say.least}
	}
	return n, nil
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

// ParseUnits parses "2", "0.5" or "500m", at most MaxUnits. The error says what to
// write instead.
func ParseUnits(s string) (Units, error) { return parseUnits(s, MaxUnits) }

func parseUnits(s string, most Units) (Units, error) {
	n, err := parseThousandths(s, int64(most), thousandths{
		what: " is not a number of devices", write: "write whole ones (1, 2) or a share of one (0.5)",
		much: " is too many devices", most: most.String(),
		fine: " is finer than a thousandth of a device", least: "write whole thousandths (0.001)",
	})
	return Units(n), err
}

// String writes u as a decimal: "2", "0.5".
func (u Units) String() string {
	return strconv.FormatFloat(float64(u)/1000, 'f', -1, 64)
}

// Splits says why u cannot be had of devices, "" if it can: what is not whole is a
// share of a single one.
func (u Units) Splits() string {
	if u > 1000 && u%1000 != 0 {
		return u.String() + " is more than one device, and not a whole number of them"
	}
	return ""
}

// MarshalText writes u as in a descriptor.
func (u Units) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads what MarshalText wrote, sums of many amounts too.
func (u *Units) UnmarshalText(b []byte) (err error) {
	*u, err = parseUnits(string(b), maxSum)
	return err
}

// UnmarshalJSON reads a number, too: so whole devices were written before there were parts
// of one, in what is stored and in what older versions send.
func (u *Units) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "null":
		return nil
	case len(b) > 0 && b[0] != '"':
		return u.UnmarshalText(b)
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	return u.UnmarshalText([]byte(text))
}

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
		return 0, &ValueError{words.Quote(s) + " is not an amount of bytes", "write 128Mi, 1Gi or 200M"}
	case n > int64(most):
		return 0, &ValueError{words.Quote(s) + " is too many bytes", "write at most " + most.String()}
	case !exact:
		return 0, &ValueError{words.Quote(s) + " is not a whole number of bytes", "write it in a smaller unit"}
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
		return 0, &ValueError{words.Quote(s) + " is negative", "write 0 or more"}
	case err != nil || strings.HasPrefix(s, "+"):
		return 0, &ValueError{words.Quote(s) + " is not a duration", "write 20ms, 1.5s, 2m or 1h30m"}
	case Duration(d) > MaxDuration:
		return 0, &ValueError{words.Quote(s) + " is more than a year", "write at most " + MaxDuration.String()}
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

// ParseDistance parses "20km", "1.5km" or "500m", at most MaxDistance. The error
// says what to write instead.
func ParseDistance(s string) (Distance, error) {
	num, factor := s, int64(0)
	if n, km := strings.CutSuffix(s, "km"); km {
		num, factor = n, 1000
	} else if n, m := strings.CutSuffix(s, "m"); m {
		num, factor = n, 1
	}
	n, exact, ok := parseAmount(num, factor, int64(MaxDistance))
	switch {
	case !ok || factor == 0:
		return 0, &ValueError{words.Quote(s) + " is not a distance", "write 20km, 1.5km or 500m"}
	case n > int64(MaxDistance):
		return 0, &ValueError{words.Quote(s) + " is further than any place on Earth", "write at most " + MaxDistance.String()}
	case !exact:
		return 0, &ValueError{words.Quote(s) + " is not a whole number of metres", "write whole metres (1m)"}
	}
	return Distance(n), nil
}

// String writes whole kilometres as "20km", others as "1500m".
func (d Distance) String() string {
	if d%1000 == 0 && d != 0 {
		return strconv.FormatInt(int64(d)/1000, 10) + "km"
	}
	return strconv.FormatInt(int64(d), 10) + "m"
}

// MarshalText writes d as in a descriptor.
func (d Distance) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads d as in a descriptor.
func (d *Distance) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDistance(string(b))
	return err
}

// bitUnits: the largest first, for Bitrate.String.
var bitUnits = []struct {
	suffix string
	factor int64
}{{"Gbps", 1e9}, {"Mbps", 1e6}, {"kbps", 1e3}, {"bps", 1}}

// ParseBitrate parses "10Mbps" or "1.5Gbps", at most MaxBitrate. The error says
// what to write instead.
func ParseBitrate(s string) (Bitrate, error) { return parseBitrate(s, MaxBitrate) }

func parseBitrate(s string, most Bitrate) (Bitrate, error) {
	num, factor := "", int64(0)
	for _, u := range bitUnits {
		if n, fits := strings.CutSuffix(s, u.suffix); fits {
			num, factor = n, u.factor
			break
		}
	}
	n, exact, ok := parseAmount(num, factor, int64(most))
	switch {
	case !ok:
		return 0, &ValueError{words.Quote(s) + " is not a bandwidth", "write 10Mbps, 500kbps or 1Gbps"}
	case n > int64(most):
		return 0, &ValueError{words.Quote(s) + " is too much bandwidth", "write at most " + most.String()}
	case !exact:
		return 0, &ValueError{words.Quote(s) + " is not a whole number of bits per second", "write it in a smaller unit"}
	}
	return Bitrate(n), nil
}

// String writes the largest unit that divides r.
func (r Bitrate) String() string {
	for _, u := range bitUnits {
		if r != 0 && int64(r)%u.factor == 0 {
			return strconv.FormatInt(int64(r)/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(r), 10) + "bps"
}

// MarshalText writes r as in a descriptor.
func (r Bitrate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText wrote, sums of many amounts too.
func (r *Bitrate) UnmarshalText(b []byte) (err error) {
	*r, err = parseBitrate(string(b), maxSum)
	return err
}

// ParseFileMode parses permission bits in octal, "0600" or "600". The error says
// what to write instead.
func ParseFileMode(s string) (FileMode, error) {
	const remedy = "write three octal digits as for chmod: 0600, 0644 or 0755"
	digits := s
	if len(s) == 4 {
		digits = strings.TrimPrefix(s, "0")
	}
	if len(digits) != 3 || strings.Trim(digits, "01234567") != "" {
		return 0, &ValueError{words.Quote(s) + " is not the mode of a file", remedy}
	}
	n, err := strconv.ParseInt(digits, 8, 32)
	if err != nil {
		return 0, &ValueError{words.Quote(s) + " is not the mode of a file", remedy}
	}
	return FileMode(n), nil
}

// String writes m in octal with a leading zero.
func (m FileMode) String() string { return fmt.Sprintf("%04o", int64(m)) }

// MarshalText writes m as in a descriptor.
func (m FileMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads m as in a descriptor.
func (m *FileMode) UnmarshalText(b []byte) (err error) {
	*m, err = ParseFileMode(string(b))
	return err
}

// ValueError says what is wrong with a value, and what to write instead.
type ValueError struct{ What, Remedy string }

// Error writes both.
func (e *ValueError) Error() string { return e.What + ": " + e.Remedy }

// MaxAmountDigits bounds the arithmetic; the largest amounts have 16 digits.
const MaxAmountDigits = 40

// parseAmount reads a plain non-negative decimal and multiplies it by factor,
// exactly: in floating point 1.001 cores are not 1001 thousandths. It refuses
// what strconv would let through (sign, exponent, hex, underscore, infinity) and
// a leading zero, which is an octal number to some readers. Whatever is greater
// than limit is returned as limit+1; exact is false where n is not all of it.
func parseAmount(s string, factor, limit int64) (n int64, exact, ok bool) {
	whole, frac, point := strings.Cut(s, ".")
	if len(s) > MaxAmountDigits || whole == "" || point && frac == "" ||
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
