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

// FuzzUnits: no panic, and what is accepted is written back as the same amount.
func FuzzUnits(f *testing.F) {
	for _, s := range []string{"500m", "0.5", "128Mi", "1.5Gi", "200M", "4096", "20ms", "1h30m", "0", "1e9", "-1", "0x1p-2"} {
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
