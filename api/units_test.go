package api

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseCPU(t *testing.T) {
	for in, want := range map[string]CPU{
		"0": 0, "1": 1000, "2": 2000, "0.5": 500, "500m": 500, "1.001": 1001, "0.57": 570, "1.50": 1500,
		"4096": MaxCPU, "4096000m": MaxCPU, "1.0m": 1,
	} {
		if got, err := ParseCPU(in); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "not an amount", "m": "not an amount", "-1": "not an amount", "+1": "not an amount", "1e3": "not an amount",
		"0x10": "not an amount", "1_0": "not an amount", "012": "not an amount", "00": "not an amount", "1.": "not an amount",
		".5": "not an amount", "1.2.3": "not an amount", "NaN": "not an amount", "Inf": "not an amount", "1 ": "not an amount",
		"2 cores": "not an amount", "0.0001": "finer", "0.5m": "finer", "4097": "too much", "99999999999999999999": "too much",
		strings.Repeat("9", 100): "not an amount",
	} {
		if got, err := ParseCPU(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", in, got, err, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]Bytes{
		"0": 0, "4096": 4096, "1Ki": 1024, "128Mi": 128 << 20, "1.5Gi": 3 << 29, "1Ti": 1 << 40, "1024Ti": MaxBytes,
		"1k": 1000, "1K": 1000, "200M": 200e6, "1.1M": 1100000, "3G": 3e9, "2T": 2e12, "1125899906842624": MaxBytes,
		"0.001k": 1,
	} {
		if got, err := ParseBytes(in); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "not an amount", "Mi": "not an amount", "12Q": "not an amount", "128mi": "not an amount", "128MB": "not an amount",
		"128 Mi": "not an amount", "0128Mi": "not an amount", "-1Mi": "not an amount", "1e3": "not an amount",
		"1.5": "not a whole number", "0.1Ki": "not a whole number", "1025Ti": "too many", "1125899906842625": "too many",
	} {
		if got, err := ParseBytes(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", in, got, err, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]Duration{
		"0": 0, "0s": 0, "20ms": 20e6, "1.5s": 15e8, "2m": 120e9, "1h30m": 5400e9, "8760h": MaxDuration,
	} {
		if got, err := ParseDuration(in); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "not a duration", "20": "not a duration", "+1s": "not a duration", "1d": "not a duration", "1:30": "not a duration",
		"-1s": "negative", "8761h": "more than a year", "99999999999h": "not a duration",
	} {
		if got, err := ParseDuration(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", in, got, err, want)
		}
	}
	for d, want := range map[Duration]string{0: "0s", 120e9: "2m", 3600e9: "1h", 5400e9: "1h30m", 61e9: "1m1s", 10e9: "10s", 3605e9: "1h0m5s"} {
		if d.String() != want {
			t.Errorf("%d is written %s, want %s", d, d, want)
		}
	}
}

func TestParseDistance(t *testing.T) {
	for in, want := range map[string]Distance{"500m": 500, "20km": 20_000, "1.5km": 1500, "0m": 0, "0.001km": 1, "20038km": MaxDistance} {
		if got, err := ParseDistance(in); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "not a distance", "20": "not a distance", "km": "not a distance", "20 km": "not a distance", "-1km": "not a distance", "1e3m": "not a distance",
		"NaNkm": "not a distance", "0.5m": "not a whole number", "20039km": "further than any place",
	} {
		if got, err := ParseDistance(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", in, got, err, want)
		}
	}
}

func TestParseBitrate(t *testing.T) {
	for in, want := range map[string]Bitrate{"10Mbps": 10e6, "1.5Gbps": 15e8, "500kbps": 5e5, "1bps": 1, "1000Gbps": MaxBitrate} {
		if got, err := ParseBitrate(in); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{"10": "not a bandwidth", "10MBps": "not a bandwidth", "-1bps": "not a bandwidth", "0.5bps": "not a whole number", "1001Gbps": "too much"} {
		if got, err := ParseBitrate(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", in, got, err, want)
		}
	}
}

func TestParseFileMode(t *testing.T) {
	for in, want := range map[string]FileMode{"0600": 0o600, "600": 0o600, "0755": 0o755, "000": 0} {
		if got, err := ParseFileMode(in); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "6", "60", "0o600", "4755", "06000", "0888", "rw-", "-600"} {
		if got, err := ParseFileMode(in); err == nil {
			t.Errorf("%q is %v", in, got)
		}
	}
}

func TestParsePoint(t *testing.T) {
	for in, want := range map[string]Point{"48.14,11.58": {48.14, 11.58}, "-90, -180": {-90, -180}, "0,0": {}, "-0,-0": {}} {
		got, err := ParsePoint(in)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
		if again, err := ParsePoint(got.String()); err != nil || again != got || strings.Contains(got.String(), "-0,") {
			t.Errorf("%q is written %s and read as %v, %v", in, got, again, err)
		}
	}
	for in, want := range map[string]string{"": "not a point", "48": "not a point", "48,11,3": "not a point", "NaN,1": "not a point", "0x10,1": "not a point", "90.1,0": "latitude", "0,-181": "longitude", "1e999,0": "not a point"} {
		if got, err := ParsePoint(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", in, got, err, want)
		}
	}
}

// FuzzUnits: no panic, and what is accepted is written back as the same amount.
func FuzzUnits(f *testing.F) {
	for _, s := range []string{"500m", "0.5", "128Mi", "1.5Gi", "200M", "4096", "20ms", "1h30m", "0", "1e9", "-1", "0x1p-2", "20km", "1.5km", "10Mbps", "0640", "48.14,11.58"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := ParseCPU(s); err == nil {
			if again, err := ParseCPU(c.String()); err != nil || again != c || c < 0 || c > MaxCPU {
				t.Errorf("cpu %q: %v, then %v, %v", s, c, again, err)
			}
		}
		if b, err := ParseBytes(s); err == nil {
			if again, err := ParseBytes(b.String()); err != nil || again != b || b < 0 || b > MaxBytes {
				t.Errorf("bytes %q: %v, then %v, %v", s, b, again, err)
			}
		}
		if d, err := ParseDuration(s); err == nil {
			if again, err := ParseDuration(d.String()); err != nil || again != d || d < 0 || d > MaxDuration {
				t.Errorf("duration %q: %v, then %v, %v", s, d, again, err)
			}
		}
		if d, err := ParseDistance(s); err == nil {
			if again, err := ParseDistance(d.String()); err != nil || again != d || d < 0 || d > MaxDistance {
				t.Errorf("distance %q: %v, then %v, %v", s, d, again, err)
			}
		}
		if r, err := ParseBitrate(s); err == nil {
			if again, err := ParseBitrate(r.String()); err != nil || again != r || r < 0 || r > MaxBitrate {
				t.Errorf("bit rate %q: %v, then %v, %v", s, r, again, err)
			}
		}
		if m, err := ParseFileMode(s); err == nil {
			if again, err := ParseFileMode(m.String()); err != nil || again != m || m < 0 || m > 0o777 {
				t.Errorf("mode %q: %v, then %v, %v", s, m, again, err)
			}
		}
		if p, err := ParsePoint(s); err == nil {
			if again, err := ParsePoint(p.String()); err != nil || again != p {
				t.Errorf("point %q: %v, then %v, %v", s, p, again, err)
			}
		}
	})
}

// The capacity of a large cluster is written in the same units as the demand of
// one instance, and must come back from the wire.
func TestSumsRoundTrip(t *testing.T) {
	in := Resources{CPU: 10000 * MaxCPU, Memory: 500 * MaxBytes, Disk: 500 * MaxBytes}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Resources
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Errorf("%s came back as %+v, %v", b, out, err)
	}
}

// Older versions wrote a number of whole devices.
func TestUnitsAreReadAsTheyWere(t *testing.T) {
	for text, want := range map[string]Units{`2`: 2000, `"2"`: 2000, `"0.5"`: 500, `"500m"`: 500, `0`: 0, `null`: 7} {
		got := Units(7)
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{`-1`, `1e9`, `true`, `{}`, `[]`, `"x"`, `99999999999999999999`} {
		var got Units
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is read as %s", text, got)
		}
	}
}
