package data

import (
	"bytes"
	"testing"
)

func FuzzPreamble(f *testing.F) {
	good, err := Preamble{Instance: "app.web.0", Port: "http", Probe: true}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("VRGD\x01\x00\x00\x05\xffabct"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := bytes.NewReader(sent)
		p, err := readPreamble(r)
		if read := len(sent) - r.Len(); read > preambleHead+maxPreambleBody {
			t.Fatalf("read %d bytes", read)
		}
		if err != nil {
			return
		}
		again, err := p.Encode()
		if err != nil {
			t.Fatalf("%+v was read but cannot be written: %v", p, err)
		}
		back, err := readPreamble(bytes.NewReader(again))
		if err != nil || back != p {
			t.Fatalf("%+v became %+v, %v", p, back, err)
		}
	})
}
