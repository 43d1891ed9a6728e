package objects_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/wire"
)

func codeOf(err error) string {
	var p *wire.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// An object whose record cannot be read is listed with the others, which are as before; a
// start takes nothing of anybody's content away, a backup goes without it, and putting or
// removing it mends it.
func TestAnObjectThatCannotBeRead(t *testing.T) {
	for how, bad := range map[string]string{"damaged": `{"v":1,"blob`, "newer": `{"v":2,"blob":"x"}`} {
		t.Run(how, func(t *testing.T) {
			ctx := t.Context()
			x := open(t, objects.Options{})
			x.put(t, "a", "one")
			x.put(t, "b", "two")
			if _, err := x.store.Put(ctx, "object/shop/b", []byte(bad)); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			again, err := objects.Open(ctx,
				objects.Options{Store: x.store, Blobs: x.blobs, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			x.Store = again
			if !strings.Contains(log.String(), "object/shop/b") {
				t.Errorf("the log says nothing of it: %s", log.String())
			}
			if blobs, err := x.blobs.List(ctx); err != nil || len(blobs) != 2 {
				t.Errorf("a start leaves %d contents, %v", len(blobs), err)
			}
			list, err := again.List(ctx, "shop")
			if err != nil || len(list) != 2 || list[0].Problem != "" || list[1].Name != "b" ||
				!strings.Contains(list[1].Problem, "verge object put b") {
				t.Errorf("%+v, %v", list, err)
			}
			if _, text, err := x.get("a"); text != "one" || err != nil {
				t.Errorf("%q, %v", text, err)
			}
			if _, _, err := x.get("b"); codeOf(err) != "record-unreadable" {
				t.Errorf("it is read: %v", err)
			}
			snap, err := x.store.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if named, err := again.Named(snap); err != nil || len(named) != 1 || named[0].Name != "a" {
				t.Errorf("a backup has %+v, %v", named, err)
			}
			x.put(t, "c", "three")
			v, err := again.Put(ctx, upload("b", strings.NewReader("new")))
			if how == "newer" {
				if err == nil {
					t.Errorf("what a newer program wrote is written over: %+v", v)
				}
				if _, err := again.Remove(ctx, "shop", "b"); err != nil {
					t.Fatal(err)
				}
				x.put(t, "b", "new")
			} else if err != nil {
				t.Fatal(err)
			}
			if _, text, err := x.get("b"); text != "new" || err != nil {
				t.Errorf("%q, %v", text, err)
			}
			third, err := objects.Open(ctx, objects.Options{Store: x.store, Blobs: x.blobs})
			if err != nil {
				t.Fatal(err)
			}
			defer third.Close()
			if blobs, err := x.blobs.List(ctx); err != nil || len(blobs) != 3 {
				t.Errorf("the next start leaves %d contents of 3 objects, %v", len(blobs), err)
			}
		})
	}
}

// A copy whose record cannot be read is fetched again.
func TestACopyThatCannotBeRead(t *testing.T) {
	up := open(t, objects.Options{})
	up.put(t, "a", "one")
	x := open(t, objects.Options{Site: "edge", Above: &above{tier: up}})
	if _, text, err := x.get("a"); text != "one" || err != nil {
		t.Fatalf("%q, %v", text, err)
	}
	if _, err := x.store.Commit(t.Context(), bus.Put("objectcopy/shop/a", []byte(`{`))); err != nil {
		t.Fatal(err)
	}
	again, err := objects.Open(t.Context(),
		objects.Options{Store: x.store, Blobs: x.blobs, Site: "edge", Above: &above{tier: up}})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	x.Store = again
	if _, text, err := x.get("a"); text != "one" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if list, err := again.List(t.Context(), ""); err != nil || len(list) != 1 || list[0].Problem != "" {
		t.Errorf("%+v, %v", list, err)
	}
}
