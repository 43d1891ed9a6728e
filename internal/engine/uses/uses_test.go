package uses

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// The first use of a service waits until its endpoints are told, for a bounded time; it is
// forgotten when it has not been used for a while.
func TestUsesWaitAndExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said wire.Uses
		u := New(func(s *wire.Uses) { said = *s })
		rt := wire.Route{App: "far", Service: "api", Unasked: true}
		u.Set([]wire.Route{rt})
		began := time.Now()
		if err := u.Await(t.Context(), "far.api"); err == nil || time.Since(began) != ToldWithin {
			t.Errorf("nobody tells: %v after %s", err, time.Since(began))
		}
		if !slices.Equal(said.Services, []string{"far.api"}) {
			t.Errorf("says %+v", said)
		}
		done := make(chan error, 1)
		go func() { done <- u.Await(t.Context(), "far.api") }()
		synctest.Wait()
		rt.Unasked = false
		u.Set([]wire.Route{rt})
		if err := <-done; err != nil {
			t.Error(err)
		}
		u.expire(time.Now().Add(usedFor))
		if len(said.Services) != 0 {
			t.Errorf("not used for %s: says %+v", usedFor, said)
		}
	})
}

// A gateway keeps the endpoints of a service that it passes requests on to when the last instance
// of the application leaves: a request would else wait until its cluster tells them again.
func TestWhatIsUsedOutlivesTheInstancesHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []wire.Uses
		u := New(func(s *wire.Uses) { said = append(said, *s) })
		u.SetUsed(func([]string) map[string]time.Time { return map[string]time.Time{"shop.web": time.Now()} })
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go u.Run(ctx)
		time.Sleep(time.Hour)
		u.Set([]wire.Route{{App: "shop", Service: "db"}, {App: "shop", Service: "web"}, {App: "far", Service: "api", Unasked: true}})
		u.SetApps(map[string]bool{"shop": true})
		synctest.Wait()
		said = nil
		u.SetApps(nil)
		synctest.Wait()
		if len(said) == 0 || !slices.Equal(said[len(said)-1].Services, []string{"shop.web"}) {
			t.Fatalf("says %+v", said)
		}
		for _, s := range said {
			if !slices.Contains(s.Services, "shop.web") {
				t.Errorf("its endpoints are given back meanwhile: %+v", s)
			}
		}
	})
}
