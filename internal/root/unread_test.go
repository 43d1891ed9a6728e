package root

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
)

// Every kind of record, unreadable in turn: the root starts and says so, and all else
// works; or it decides nothing and what is stored stays; or it does not start, and says
// why.
func TestRecordsThatCannotBeRead(t *testing.T) {
	ctx := t.Context()
	full := bus.NewMemStore()
	b := newTestBackend(t, full)
	op, err := records.Op(keyCluster+"edge", &clusterRecord{V: wire.Version, Name: "edge"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := full.Commit(ctx, op); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Apply(ctx, []byte(shop), false); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pass(ctx, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	good, err := full.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		keyApp + "shop", keyRevision + "shop.1", keyInstance + "shop.web.0", keyShare + "edge.shop.web", keyRoute + "shop.web", keyRoute + "gone.web",
		keyNamespace + "team", keyCluster + "edge", keyGone + "aa", keyRevoked + "edge.aa", keyPublish + "team", networkKey, keyLease + "edge" + leaseOf,
		keyOver + "shop.web", keySchedule + "shop.web", keyTally + wire.TallyGone, keySecret + "default.s", keySealed + "edge.default.s", backup.MarkKey, backup.SettledKey,
	} {
		for how, bad := range map[string]string{"damaged": `{"v":`, "newer": `{"v":2,"of":"another form"}`} {
			t.Run(how+" "+key, func(t *testing.T) {
				store := bus.NewMemStore()
				for _, e := range good {
					if _, err := store.Put(ctx, e.Key, e.Value); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := store.Put(ctx, key, []byte(bad)); err != nil {
					t.Fatal(err)
				}
				unread(t, store, key, bad, how)
			})
		}
	}
}

// insecure are those on which security hangs although the root goes on without them.
var insecure = map[string]bool{}

func unread(t *testing.T, store *bus.MemStore, key, bad, how string) {
	t.Helper()
	ctx := t.Context()
	c := &core{
		log: slog.New(slog.DiscardHandler), events: obs.NewEvents(time.Now(), 0), store: store,
		link: func(string) (bus.Conn, error) { return nil, errors.New("no link") },
	}
	err := c.init(ctx, time.Minute, time.Now())
	fate := schema.Fate(key)
	entries, lerr := store.List(ctx, "")
	if lost := Lost(entries); lerr != nil || len(lost) != 1 || lost[0].Key != key || lost[0].Fate != fate || lost[0].Kind.Prefix == "" || lost[0].Kind.Security != (fate == records.Stops || insecure[key]) {
		t.Errorf("an operator sees %+v, %v", lost, lerr)
	}
	remedy := map[string]string{"damaged": "verge restore", "newer": "start the newer program again"}[how]
	if fate == records.Stops {
		if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("it starts, or does not say why: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	b, rev := backend{&Root{core: c}}, store.Rev()
	if _, err := c.pass(ctx, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	_, err = b.Apply(ctx, []byte(strings.Replace(shop, "application: shop", "application: other", 1)), false)
	if _, perr := c.pass(ctx, time.Now(), true); perr != nil {
		t.Fatal(perr)
	}
	now, gerr := store.Get(ctx, key)
	if gerr != nil && !errors.Is(gerr, bus.ErrNotFound) {
		t.Fatal(gerr)
	}
	_, works := c.m.insts["other.web.0"]
	switch fate {
	case records.Holds:
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != "records-unreadable" || works || store.Rev() != rev {
			t.Errorf("it decides: %v, revision %d and was %d", err, store.Rev(), rev)
		}
	case records.Aside:
		if err != nil || !works || string(now.Value) != bad {
			t.Errorf("%v, the other application runs: %v, and the record is %q", err, works, now.Value)
		}
	case records.Again:
		if err != nil || !works || string(now.Value) == bad {
			t.Errorf("%v, the other application runs: %v, and the record is %q", err, works, now.Value)
		}
	}
	said := strings.Join(c.status(access.With(ctx, access.Who{Admin: true})).Problems, "\n")
	if !strings.Contains(said, "stored record "+key+" cannot be read") || fate != records.Again && !strings.Contains(said, remedy) {
		t.Errorf("the status says:\n%s", said)
	}
}

// The root as a whole starts where it holds, says why, and refuses changes; and works
// again when the record can be read.
func TestARootThatHolds(t *testing.T) {
	ctx := access.With(t.Context(), access.Who{Admin: true})
	dir := t.TempDir()
	start := func() *Root {
		t.Helper()
		r, err := Start(ctx, Options{Dir: dir, APIAddr: "127.0.0.1:0", LinkAddr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := start()
	if _, err := (backend{r}).Apply(ctx, []byte(shop), false); err != nil {
		t.Fatal(err)
	}
	again := func(op bus.Op) {
		t.Helper()
		if _, err := r.server.Store().Commit(ctx, op); err != nil {
			t.Fatal(err)
		}
		r.Close()
		r = start()
	}
	again(bus.Put(keyApp+"other", []byte(`{"v":2}`)))
	if said := strings.Join(r.status(ctx).Problems, "\n"); !strings.Contains(said, "stored record app.other cannot be read") || (backend{r}).Ready() == nil {
		t.Errorf("the status says:\n%s", said)
	}
	for what, change := range map[string]func() error{
		"apply": func() error {
			_, err := (backend{r}).Apply(ctx, []byte(strings.Replace(shop, "3", "4", 1)), false)
			return err
		},
		"a namespace": func() error {
			_, err := (backend{r}).CreateNamespace(ctx, wire.NamespaceRequest{Name: "team"})
			return err
		},
	} {
		if err := change(); records.Refused(err) == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	again(bus.Del(keyApp + "other"))
	defer r.Close()
	if _, err := (backend{r}).Scale(ctx, "shop", "web", 5); err != nil || (backend{r}).Ready() != nil {
		t.Error(err)
	}
}
