package orca

import (
	"encoding/base64"
	"math"
	"strings"
	"testing"
)

// What Envoy and gRPC send for cpu 0.7, memory 0.25, rps_fractional 12.5 and
// named_metrics {"queue_length": 3}.
var message = base64.StdEncoding.EncodeToString([]byte("" +
	"\x09\x66\x66\x66\x66\x66\x66\xe6\x3f" + // 1: 0.7
	"\x11\x00\x00\x00\x00\x00\x00\xd0\x3f" + // 2: 0.25
	"\x18\x07" + // 3: 7, of old
	"\x31\x00\x00\x00\x00\x00\x00\x29\x40" + // 6: 12.5
	"\x42\x17\x0a\x0cqueue_length\x11\x00\x00\x00\x00\x00\x00\x08\x40")) // 8

func TestForms(t *testing.T) {
	for name, value := range map[string]string{
		"text":              "TEXT cpu_utilization=0.7, mem_utilization=0.25,rps_fractional=12.5,named_metrics.queue_length=3",
		"text with colons":  "TEXT cpu_utilization:0.7,mem_utilization: 0.25,rps_fractional:12.5,named_metrics.queue_length:3",
		"text, more fields": "TEXT cpu_utilization=0.7,mem_utilization=0.25,rps_fractional=12.5,utilization.disk=0.3,named_metrics.queue_length=3",
		"json":              `JSON {"cpu_utilization": 0.7, "mem_utilization": 0.25, "rps_fractional": 12.5, "rps": 7, "named_metrics": {"queue_length": 3}}`,
		"bin":               "BIN " + message,
	} {
		r, err := Parse(value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if q, ok := r.Get("queue_length"); r.CPU != 0.7 || r.Memory != 0.25 || r.RPS != 12.5 || !ok || q != 3 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	r, err := ParseTrailer(strings.TrimRight(message, "="))
	if err != nil || r.CPU != 0.7 {
		t.Errorf("trailer: %+v, %v", r, err)
	}
}

// What is written is what is read, and what others read.
func TestWritten(t *testing.T) {
	want, err := Parse("TEXT cpu_utilization=0.7,mem_utilization=0.25,application_utilization=1.5,rps_fractional=12.5,eps=3,named_metrics.queue_length=3,named_metrics.idle=0")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Parse(string(want.AppendText(nil))); err != nil || got != want {
		t.Errorf("text: %+v, %v", got, err)
	}
	if got, err := ParseTrailer(string(want.AppendBinary(nil))); err != nil || got != want {
		t.Errorf("binary: %+v, %v", got, err)
	}
	if got := string((&Report{}).AppendBinary([]byte("x"))); got != "x" {
		t.Errorf("nothing to say became %q", got)
	}
}

func TestNoReport(t *testing.T) {
	many := strings.Builder{}
	for i := range MaxNamed + 1 {
		many.WriteString("named_metrics.a" + strings.Repeat("b", i) + "=1,")
	}
	for name, value := range map[string]string{
		"nothing":         "",
		"no form":         "cpu_utilization=1",
		"no value":        "TEXT cpu_utilization",
		"no number":       "TEXT cpu_utilization=much",
		"not a number":    "TEXT cpu_utilization=NaN",
		"infinite":        "TEXT mem_utilization=Inf",
		"too large":       "TEXT mem_utilization=1e999",
		"below zero":      "TEXT named_metrics.queue_length=-1",
		"twice":           "TEXT cpu_utilization=1,cpu_utilization=2",
		"named twice":     "TEXT named_metrics.a=0,named_metrics.a=2",
		"no name":         "TEXT named_metrics.=2",
		"too many":        "TEXT " + many.String(),
		"long name":       "TEXT named_metrics." + strings.Repeat("a", 65) + "=1",
		"long":            "TEXT " + strings.Repeat(" ", maxHeader),
		"half of a json":  `JSON {"cpu_utilization": 0.7`,
		"json below zero": `JSON {"cpu_utilization": -0.7}`,
		"json, bad name":  `JSON {"named_metrics": {"a,b": 1}}`,
		"no base64":       "BIN !!!",
		"cut":             "BIN " + message[:20],
		"bin, NaN":        "BIN " + base64.StdEncoding.EncodeToString([]byte("\x09\x00\x00\x00\x00\x00\x00\xf8\x7f")),
	} {
		if r, err := Parse(value); err == nil || r.n != 0 || r.CPU != 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestWriteAndReadBack(t *testing.T) {
	var r Report
	r.CPU = 0.5
	for _, m := range []Metric{{"queue_length", 3}, {"departure_rate", 1234.5}, {"confidence", 1}, {"gone", 1}, {"exec_ms", 0.123456789}, {"zero", 0}} {
		if !r.Set(m.Name, m.Value) {
			t.Fatalf("%s is not taken", m.Name)
		}
	}
	r.Drop("gone")
	r.Drop("never there")
	if r.Set("a=b", 1) || r.Set("x", math.NaN()) || r.Set("x", -1) || r.Set("x\r\ny", 1) {
		t.Fatal("what cannot be written is taken")
	}
	text := string(r.AppendText(nil))
	const want = "TEXT cpu_utilization=0.5,named_metrics.queue_length=3,named_metrics.departure_rate=1234.5,named_metrics.confidence=1,named_metrics.exec_ms=0.123457,named_metrics.zero=0"
	if text != want {
		t.Fatalf("got  %s\nwant %s", text, want)
	}
	back, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Named()) != 5 || back.CPU != 0.5 {
		t.Fatalf("%+v", back)
	}
}

func TestCheap(t *testing.T) {
	var r Report
	r.Set("queue_length", 3)
	r.Set("departure_rate", 1234.5)
	text := string(r.AppendText(nil))
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		r, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		buf = r.AppendText(buf[:0])
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParse: whatever comes, what is taken can be written and read again, and says
// nothing that is no number.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"TEXT cpu_utilization=0.7,named_metrics.queue_length=3", "TEXT a:1", "TEXT cpu_utilization=NaN",
		`JSON {"cpu_utilization": 0.7, "named_metrics": {"queue_length": 3}}`, "BIN " + message,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			return
		}
		if !r.fieldsValid() || r.n > MaxNamed {
			t.Fatalf("%q: %+v", s, r)
		}
		text := string(r.AppendText(nil))
		if strings.ContainsAny(text, "\r\n\x00") {
			t.Fatalf("%q is written as %q", s, text)
		}
		back, err := Parse(text)
		if err != nil || back.n != r.n {
			t.Fatalf("%q is written as %q, which is read as %+v, %v", s, text, back, err)
		}
	})
}
