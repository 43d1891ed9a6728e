package root

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/backend"
	"github.com/verge-edge/verge/internal/root/controller"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/counters"
	"github.com/verge-edge/verge/internal/root/jobs"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/overflow"
	"github.com/verge-edge/verge/internal/root/revisions"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/secrets"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
)

// Every kind of record, unreadable in turn: the root starts and says so, and all else
// works; or it decides nothing and what is stored stays; or it does not start, and says
// why.
func TestRecordsThatCannotBeRead(t *testing.T) {
	ctx := t.Context()
	full := bustest.NewMemStore()
	b := roottest.NewBackend(t, full)
	op, err := records.Op(state.KeyCluster+"edge", &state.ClusterRecord{V: wire.Version, Name: "edge"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := full.Commit(ctx, op); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Apply(ctx, []byte(roottest.Shop), false); err != nil {
		t.Fatal(err)
	}
	if _, err := controller.Pass(ctx, b.Core, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	good, err := full.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		state.KeyApp + "shop", revisions.Key + "shop.1", state.KeyInstance + "shop.web.0",
		state.KeyShare + "edge.shop.web", state.KeyRoute + "shop.web", state.KeyRoute + "gone.web",
		state.KeyNamespace + "team", state.KeyCluster + "edge", state.KeyGone + "aa", state.KeyRevoked + "edge.aa",
		namespaces.KeyPublish + "team", state.KeyNetwork, state.KeyLease + "edge" + state.LeaseSuffix,
		overflow.Key + "shop.web", jobs.Key + "shop.web", counters.Key + wire.GoneCounters, secrets.Key + "default.s",
		secrets.KeySealed + "edge.default.s", backup.MarkKey, backup.SettledKey,
	} {
		for how, bad := range map[string]string{"damaged": `{"v":`, "newer": `{"v":2,"of":"another form"}`} {
			t.Run(how+" "+key, func(t *testing.T) {
				store := bustest.NewMemStore()
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

func unread(t *testing.T, store *bustest.MemStore, key, bad, how string) {
	t.Helper()
	ctx := t.Context()
	c := &core.Core{
		Logger: slog.New(slog.DiscardHandler), EventRing: obs.NewEvents(time.Now(), 0, state.Tier), RecordStore: store,
		LinkTo: func(string) (bus.Conn, error) { return nil, errors.New("no link") },
	}
	err := controller.Init(ctx, c, time.Minute, time.Now())
	fate := state.Schema.Fate(key)
	entries, lerr := store.List(ctx, "")
	if lost := Lost(entries); lerr != nil || len(lost) != 1 || lost[0].Key != key || lost[0].Fate != fate ||
		lost[0].Kind.Prefix == "" || lost[0].Kind.Security != (fate == records.Stops || insecure[key]) {
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
	b, rev := backend.Backend{Core: c}, store.Rev()
	if _, err := controller.Pass(ctx, c, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	_, err = b.Apply(ctx, []byte(strings.Replace(roottest.Shop, "application: shop", "application: other", 1)), false)
	if _, perr := controller.Pass(ctx, c, time.Now(), true); perr != nil {
		t.Fatal(perr)
	}
	now, gerr := store.Get(ctx, key)
	if gerr != nil && !errors.Is(gerr, bus.ErrNotFound) {
		t.Fatal(gerr)
	}
	_, works := c.M.Insts["other.web.0"]
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
	said := strings.Join(views.Status(access.With(ctx, access.Who{Admin: true}), c).Problems, "\n")
	if !strings.Contains(said, "stored record "+key+" cannot be read") || fate != records.Again &&
		!strings.Contains(said, remedy) {
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
		r, err := Start(ctx, Options{Dir: dir, APIAddr: "127.0.0.1:0", LinkAddr: "127.0.0.1:0",
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := start()
	if _, err := r.http.Apply(ctx, []byte(roottest.Shop), false); err != nil {
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
	again(bus.Put(state.KeyApp+"other", []byte(`{"v":2}`)))
	if said := strings.Join(views.Status(ctx, r.Core).Problems, "\n"); !strings.Contains(said,
		"stored record app.other cannot be read") || r.http.Ready() == nil {
		t.Errorf("the status says:\n%s", said)
	}
	for what, change := range map[string]func() error{
		"apply": func() error {
			_, err := r.http.Apply(ctx, []byte(strings.Replace(roottest.Shop, "3", "4", 1)), false)
			return err
		},
		"a namespace": func() error {
			_, err := r.http.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: "team"})
			return err
		},
		"a user": func() error {
			_, err := r.http.CreateUser(ctx, apiv1.UserRequest{Name: "amy"})
			return err
		},
		"a hook": func() error {
			_, err := r.http.SetHook(ctx, "", "told", apiv1.HookRequest{HookSpec: wire.HookSpec{
				URL: "https://hooks.example.org", On: []string{"*"}},
				Secret: "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24))})
			return err
		},
		"an object": func() error {
			_, err := r.http.PutObject(ctx, rest.ObjectUpload{Namespace: api.DefaultNamespace, Name: "model", Size: 1,
				Body: strings.NewReader("1")})
			return err
		},
	} {
		if err := change(); roottest.Code(err) != "records-unreadable" {
			t.Errorf("%s: %v", what, err)
		}
	}
	again(bus.Del(state.KeyApp + "other"))
	defer r.Close()
	if _, err := r.http.Scale(ctx, "shop", "web", 5); err != nil || r.http.Ready() != nil {
		t.Error(err)
	}
}
