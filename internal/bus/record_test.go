package bus

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

func TestRecordRoundTrip(t *testing.T) {
	for name, c := range map[string]content{
		"empty": {entries: []Entry{}},
		"era":   {floor: 7, timeline: wire.Timeline{{ID: "a", First: 1}, {ID: "b", First: 300}}, entries: []Entry{}},
		"entries": {floor: 1 << 60, entries: []Entry{
			{Key: "a", Value: []byte("x"), Rev: 1}, {Key: "b", Rev: 1 << 63, Deleted: true}, {Key: "c", Value: []byte{}, Rev: 3},
		}},
	} {
		data, err := c.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeContent(data)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c)
		}
		for n := range data {
			if _, err := decodeContent(data[:n]); err == nil {
				t.Errorf("%s: the first %d of %d bytes were accepted", name, n, len(data))
			}
		}
		if _, err := decodeContent(append(bytes.Clone(data), 0)); err == nil {
			t.Errorf("%s: a byte too many was accepted", name)
		}
	}
	if _, err := decodeContent([]byte{recordVersion + 1, 0, 0, 0}); err == nil {
		t.Error("a record of a newer version was accepted")
	}
}

func FuzzDecodeContent(f *testing.F) {
	seed, err := content{floor: 3, entries: []Entry{{Key: "a", Value: []byte("x"), Rev: 1}, {Key: "b", Rev: 2, Deleted: true}}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{recordVersion, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeContent(data)
		if err != nil {
			return
		}
		again, err := c.encode()
		if err != nil {
			t.Fatal(err)
		}
		if d, err := decodeContent(again); err != nil || !reflect.DeepEqual(c, d) {
			t.Fatalf("%+v became %+v, %v", c, d, err)
		}
	})
}

func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a", false}, {"a", "a.b", false}, {"a.*", "a.b", true}, {"a.*", "a.b.c", false},
		{"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a", true}, {">", ">", true}, {"*", ">", false}, {"a.*", "a.>", false},
		{"a.>", "a.>", true}, {"a.>", "a.*", true}, {"a.b", "a.*", false}, {"*.b", "*.b", true}, {"*.b", ">", false}, {"a.>", "*.b", false},
	} {
		if got := covers(tc.pattern, tc.subject); got != tc.want {
			t.Errorf("covers(%q, %q) = %v", tc.pattern, tc.subject, got)
		}
	}
}

func TestRedialDelayIsBounded(t *testing.T) {
	for _, rounds := range []int{-1, 0, 1, 5, 6, 7, 62, 63, 64, 1 << 40} {
		for range 100 {
			if d := redialDelay(rounds); d < minRedial/2 || d > maxRedial {
				t.Fatalf("delay of round %d is %v", rounds, d)
			}
		}
	}
	if redialDelay(0) > minRedial || redialDelay(100) < maxRedial/2 {
		t.Fatal("the delay does not grow")
	}
}
