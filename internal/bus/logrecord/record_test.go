package logrecord

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

func TestRecordRoundTrip(t *testing.T) {
	for name, c := range map[string]Record{
		"empty": {Entries: []bus.Entry{}},
		"era":   {Floor: 7, Timeline: wire.Timeline{{ID: "a", First: 1}, {ID: "b", First: 300}}, Entries: []bus.Entry{}},
		"entries": {Floor: 1 << 60, Entries: []bus.Entry{
			{Key: "a", Value: []byte("x"), Rev: 1}, {Key: "b", Rev: 1 << 63, Deleted: true}, {Key: "c", Value: []byte{}, Rev: 3},
		}},
	} {
		data, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(data)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c)
		}
		for n := range data {
			if _, err := Decode(data[:n]); err == nil {
				t.Errorf("%s: the first %d of %d bytes were accepted", name, n, len(data))
			}
		}
		if _, err := Decode(append(bytes.Clone(data), 0)); err == nil {
			t.Errorf("%s: a byte too many was accepted", name)
		}
	}
	if _, err := Decode([]byte{recordVersion + 1, 0, 0, 0}); err == nil {
		t.Error("a record of a newer version was accepted")
	}
}

func FuzzDecodeContent(f *testing.F) {
	seed, err := Record{Floor: 3, Entries: []bus.Entry{{Key: "a", Value: []byte("x"), Rev: 1}, {Key: "b", Rev: 2, Deleted: true}}}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{recordVersion, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Decode(data)
		if err != nil {
			return
		}
		again, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if d, err := Decode(again); err != nil || !reflect.DeepEqual(c, d) {
			t.Fatalf("%+v became %+v, %v", c, d, err)
		}
	})
}
