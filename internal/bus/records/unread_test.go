package records

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/wire"
)

type versioned struct {
	V    int    `json:"v"`
	Name string `json:"name"`
}

// What a newer program wrote is not read, whether it has a field for its form here or not,
// and whether it can be decoded or not.
func TestLoad(t *testing.T) {
	for text, want := range map[string]string{
		`{"v":1,"name":"a"}`: "", `{"name":"a"}`: "", `{"v":2,"name":"a"}`: "its form is 2", `{"v":2,"name":{}}`: "its form is 2",
		`{"v":1,"name":{}}`: "cannot unmarshal", `{`: "unexpected end", ``: "unexpected end", `{"v":"2"}`: "cannot unmarshal",
	} {
		for _, into := range []any{&versioned{}, &struct {
			Name string `json:"name"`
			V    any    `json:"v"`
		}{}} {
			err := Load(bus.Entry{Key: "k", Value: []byte(text)}, into)
			if _, loose := into.(*versioned); !loose && text == `{"v":"2"}` {
				continue // whatever its form is
			}
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", text, err)
			}
			if errors.Is(err, errNewer) != strings.HasPrefix(want, "its form") {
				t.Errorf("%s: of a newer program: %v", text, err)
			}
		}
	}
	var n uint64
	if err := Load(bus.Entry{Value: []byte("7")}, &n); err != nil || n != 7 {
		t.Error(n, err)
	}
}

func TestLoadInto(t *testing.T) {
	m := map[string]*versioned{}
	bad := bus.Entry{Key: "x.a", Value: []byte("{")}
	if err := LoadInto(bad, m, "a", Aside); err == nil || len(m) != 0 {
		t.Error(m, err)
	}
	if err := LoadInto(bad, m, "a", Again); err == nil || m["a"] == nil || *m["a"] != (versioned{}) {
		t.Error(m, err)
	}
}

func TestWhatIsSaidOfRecords(t *testing.T) {
	kinds := []Kind{{Prefix: "a.", Fate: Aside}, {Prefix: "a.b.", Fate: Again}, {Prefix: "s.", Fate: Stops}}
	var list []Unread
	for _, key := range []string{"a.1", "a.b.1", "s.1", "other"} {
		list = append(list, Unread{key, KindOf(key, kinds).Fate, errors.New("it is cut off")})
	}
	if err := Stopped(list); err == nil || !strings.Contains(err.Error(), "s.1") || strings.Contains(err.Error(), "other") {
		t.Error(err)
	}
	if err := Stopped(list[:2]); err != nil || Held(list[:2]) != "" {
		t.Error(err, Held(list[:2]))
	}
	if why := Held(list[3:]); !strings.Contains(why, "other") {
		t.Error(why)
	}
	for range 10 {
		list = append(list, Unread{"a.2", Aside, errors.New("it is cut off")})
	}
	words := Words(list)
	if len(words) != saidUnread+1 || !strings.Contains(words[0], "s.1") || !strings.Contains(words[1], "other") || !strings.Contains(words[saidUnread], "and 6 more") {
		t.Errorf("%q", words)
	}
}

func TestHold(t *testing.T) {
	ctx := t.Context()
	mem := bustest.NewMemStore()
	if _, err := mem.Put(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	s, rev := Hold(mem, "record k cannot be read"), mem.Rev()
	for what, write := range map[string]func() error{
		"commit": func() error { _, err := s.Commit(ctx, bus.Put("k", nil)); return err },
		"put":    func() error { _, err := s.Put(ctx, "k", nil); return err },
		"swap":   func() error { _, err := s.CompareAndSwap(ctx, "k", nil, rev); return err },
		"delete": func() error { _, err := s.Delete(ctx, "k"); return err },
	} {
		var p *wire.Problem
		if err := Unstored(write(), "look", "the disk"); !errors.As(err, &p) || p.Code != "records-unreadable" ||
			!strings.Contains(p.Detail, "record k cannot be read") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if e, err := s.Get(ctx, "k"); err != nil || string(e.Value) != "v" || mem.Rev() != rev || s.WriteError() == nil {
		t.Error(e, err, s.WriteError())
	}
}

func TestUnstored(t *testing.T) {
	for code, err := range map[string]error{
		"not-stored":      errors.New("full"),
		"outcome-unknown": fmt.Errorf("commit: %w", bus.ErrUnknownOutcome),
	} {
		var p *wire.Problem
		if got := Unstored(err, "look", "the disk"); !errors.As(got, &p) || p.Code != code {
			t.Errorf("%v: %v", err, got)
		}
	}
}
