package exchange

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
	"pgregory.net/rapid"
)

func genRev(t *rapid.T, name string) wire.Rev {
	return wire.Rev{
		Inc: rapid.OneOf(rapid.StringMatching(`[0-9a-f]{0,32}`), rapid.String()).Draw(t, name),
		N:   rapid.OneOf(rapid.Uint64Range(0, 1000), rapid.Uint64()).Draw(t, name+" n"),
	}
}

// What is read and written without encoding/json is what it reads and writes.
func TestPlainIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := wire.Report{
			V: rapid.IntRange(-1, 3).Draw(t, "v"), Have: genRev(t, "have"), From: genRev(t, "from"), To: genRev(t, "to"),
			More: rapid.Bool().Draw(t, "more"), Next: rapid.Int().Draw(t, "next"), At: rapid.Int64().Draw(t, "at"), Leaving: rapid.Bool().Draw(t, "leaving"),
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		checkReport(t, data)
		reply := wire.ReportReply{
			V: r.V, Want: r.Have, Ack: r.To, NeedStatus: r.More, Heeds: r.Leaving, Interval: r.Next,
			Renew: rapid.Bool().Draw(t, "renew"), NoGateway: rapid.Bool().Draw(t, "no gateway"), Refused: rapid.SampledFrom([]string{"", "why"}).Draw(t, "refused"),
		}
		want, err := json.Marshal(reply)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := encodeReply(reply); err != nil || string(got) != string(want) {
			t.Fatalf("%s, %v; want %s", got, err, want)
		}
	})
}

type fataler interface {
	Fatalf(format string, args ...any)
}

// checkReport holds that some bytes are read as encoding/json reads them.
func checkReport(t fataler, data []byte) {
	var want wire.Report
	wantErr := json.Unmarshal(data, &want)
	got, err := decodeReport(data)
	if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s is\n%+v, %v; want\n%+v, %v", data, got, err, want, wantErr)
	}
}

// The reports and replies that there are most of do not go by encoding/json.
func TestAnIdleReportIsPlain(t *testing.T) {
	r := wire.Report{V: 1, Have: wire.Rev{Inc: wire.NewID(), N: 77}, To: wire.Rev{Inc: wire.NewID(), N: 12}, From: wire.Rev{Inc: wire.NewID()}, Next: 10_000, At: 1_795_000_000, Leaving: true}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	p := plain{left: data}
	if got, ok := p.report(); !ok || !reflect.DeepEqual(got, r) {
		t.Errorf("%s is %+v, %t", data, got, ok)
	}
	reply := wire.ReportReply{V: 1, Want: r.Have, Ack: r.To, Heeds: true, Interval: 5000}
	if n := testing.AllocsPerRun(100, func() { _, _ = encodeReply(reply) }); n > 1 {
		t.Errorf("%g allocations for a plain reply", n)
	}
}

// FuzzDecodeReport reads what anybody may send.
func FuzzDecodeReport(f *testing.F) {
	for _, s := range []string{
		`{"v":1}`, `{}`, `{"v":01}`, `{"v":1,"v":2}`, `{"v":1,"h":{"i":"ab","n":1},"x":10000,"u":1}`, `{"v":1,"l":true}`, `{"v":1,"l":false}`,
		`{"h":{"i":"a\u0041"}}`, `{"V":1}`, `{"v":1,}`, `{"v":1}x`, ` {"v":1}`, `{"v":99999999999999999999}`, `{"x":-1}`, `{"h":{"i":"a","n":1,"n":2}}`, `{"h":{}}`, `{"h":null}`,
		`{"v":1,"c":[{"k":"a","v":{}}],"m":true}`, `{"v":1,"s":{"a":1}}`, `null`, `{"l":tru}`, `{"v":1.0}`, `{"v":1e0}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkReport(t, data) })
}

func BenchmarkReport(b *testing.B) {
	data, err := json.Marshal(wire.Report{V: 1, Have: wire.Rev{Inc: wire.NewID(), N: 77}, Next: 10_000, At: 1_795_000_000})
	if err != nil {
		b.Fatal(err)
	}
	reply := wire.ReportReply{V: 1, Want: wire.Rev{Inc: wire.NewID(), N: 77}, Heeds: true}
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = decodeReport(data)
			_, _ = encodeReply(reply)
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r wire.Report
			_ = json.Unmarshal(data, &r)
			_, _ = json.Marshal(reply)
		}
	})
}
