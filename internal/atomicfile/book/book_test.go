package book_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/atomicfile/book"
)

type seat struct {
	Name string
	N    int
}

var form = book.Form[seat, string, int]{
	What: "seats", Max: 1 << 10,
	Of:     func(s seat) (string, int) { return s.Name, s.N },
	Decode: func(data []byte) (out []seat, err error) { return out, json.Unmarshal(data, &out) },
	Encode: func(list []seat) ([]byte, error) { return json.Marshal(list) },
}

func TestWhatWasGivenIsKnownAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seats.json")
	b, err := book.Open(path, form)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("nothing was written down, and there is a file: %v", err)
	}
	for i, name := range []string{"a", "b", "c"} {
		b.Put(seat{name, i + 1})
	}
	if !b.DropOldest(func(k string) bool { return k == "a" }) {
		t.Error("nothing can be dropped")
	}
	if b.DropOldest(func(string) bool { return true }) {
		t.Error("what is in use was dropped")
	}
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	again, err := book.Open(path, form)
	if err != nil || !slices.Equal(again.Records(), []seat{{"a", 1}, {"c", 3}}) {
		t.Fatalf("%v, %v", again.Records(), err)
	}
	if n, ok := again.Get("c"); !ok || n != 3 {
		t.Errorf("c has %d, %v", n, ok)
	}
	if _, ok := again.Get("b"); ok {
		t.Error("b was dropped, and is there")
	}
	if k, ok := again.At(1); !ok || k != "a" {
		t.Errorf("1 is that of %q, %v", k, ok)
	}
}

func TestWhatCannotBeReadIsSetAside(t *testing.T) {
	for name, content := range map[string]string{
		"rubbish": "\x00", "twice": `[{"Name":"a","N":1},{"Name":"b","N":1}]`, "too long": strings.Repeat(" ", 2<<10),
	} {
		path := filepath.Join(t.TempDir(), "seats.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := book.Open(path, form)
		if err == nil || !strings.Contains(err.Error(), "seats in "+path) || len(b.Records()) != 0 {
			t.Errorf("%s: %v, %v", name, b.Records(), err)
		}
		if kept, err := os.ReadFile(path + ".damaged"); err != nil || string(kept) != content {
			t.Errorf("%s: set aside %.20q, %v", name, kept, err)
		}
		b.Put(seat{"a", 1})
		if err := b.Save(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
