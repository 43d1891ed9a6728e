package proxy

import (
	"context"
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// Requests that are taken back open no streams: only those that have their slots do, and
// however many come at once, no more than maxOpening are opened at a time.
func TestStreamsAreOpenedForThoseWhoWait(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	b.addHTTP(t, "app.web.0", says("hello"))
	rt := requestRoute("http", wire.RequestRules{}, b.endpoint("app.web.0"))
	a.SetRoutes([]wire.Route{rt})
	b.SetRoutes([]wire.Route{rt})
	e := a.services.Find("app.web").All()[0]
	slots := e.Slots()
	for range router.MaxOpening {
		slots <- struct{}{}
	}
	taken, takeBack := context.WithCancel(t.Context())
	const waiting = 1000
	result := make(chan error, waiting)
	for range waiting {
		go func() {
			_, _, err := a.services.OpenStream(t.Context(), taken, e, "http")
			result <- err
		}()
	}
	takeBack()
	for range waiting {
		if err := <-result; !errors.Is(err, router.ErrNotWanted) {
			t.Fatal(err)
		}
	}
	<-slots
	if _, _, err := a.services.OpenStream(t.Context(), taken, e, "http"); !errors.Is(err, router.ErrNotWanted) {
		t.Errorf("with its slots: %v", err)
	}
	if n := b.Stats().Data.Accepted; n != 0 {
		t.Errorf("%d streams were opened for nobody", n)
	}
	conn, release, err := a.services.OpenStream(t.Context(), t.Context(), e, "http")
	must(t, err)
	must(t, conn.Close())
	release()
	if len(slots) != router.MaxOpening-1 {
		t.Errorf("%d have their slots still", len(slots))
	}
}
