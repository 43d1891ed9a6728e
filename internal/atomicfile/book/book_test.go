package book_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/atomicfile/book"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
)

type seat struct {
	Name string
	N    int
}

type seatsFile struct {
	V     int    `json:"v"`
	Seats []seat `json:"seats"`
}

var form = book.Form[seat, string, int]{
	Kind: &statefile.Kind{What: "seats", Max: 1 << 10, Version: 1},
	Of:   func(s seat) (string, int) { return s.Name, s.N },
	Decode: func(data []byte) ([]seat, error) {
		var f seatsFile
		err := json.Unmarshal(data, &f)
		return f.Seats, err
	},
	Encode: func(list []seat) ([]byte, error) { return json.Marshal(seatsFile{1, list}) },
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
		"rubbish": "\x00", "twice": `{"v":1,"seats":[{"Name":"a","N":1},{"Name":"b","N":1}]}`,
		"too long": strings.Repeat(" ", 2<<10),
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

func TestOneOfANewerFormStaysWhereItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seats.json")
	content := `{"by":"v9","v":2,"places":{}}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := book.Open(path, form)
	newer := (*statefile.NewerError)(nil)
	if !errors.As(err, &newer) || len(b.Records()) != 0 {
		t.Fatalf("%v, %v", b.Records(), err)
	}
	b.Put(seat{"a", 1})
	if err := b.Save(); !errors.As(err, &newer) {
		t.Errorf("saved over it: %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != content {
		t.Errorf("it is %q, %v", now, err)
	}
}
