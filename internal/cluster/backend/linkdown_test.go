package backend

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/uplink"
)

// The status says that the root is away as soon as the link is, and not only when the next
// exchange has failed.
func TestALinkThatIsDownIsSaid(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	b := &Backend{Core: c}
	uplink.OnUpReply(c, nil)
	s, err := b.Status(t.Context())
	if err != nil || s.Upstream != "connected" || len(s.Problems) > 0 || s.UpstreamAt.IsZero() {
		t.Fatalf("%q %q %v", s.Upstream, s.Problems, err)
	}
	c.Up.(*bustest.MemConn).SetConnected(false)
	if s, err = b.Status(t.Context()); err != nil || !strings.HasPrefix(s.Upstream, "away") || len(s.Problems) != 1 {
		t.Errorf("%q %q %v", s.Upstream, s.Problems, err)
	}
	// What is changed here from now on counts as since the root was lost, although no
	// exchange has failed yet.
	e := &edits.Edit{C: c, M: c.M, App: "shop", Now: time.Now(), Locals: map[string]*localedit.Change{"shop.web": nil}}
	if err := e.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	uplink.OnUpReply(c, errors.New("no answer"))
	if n := uplink.SinceAway(c).Counters.Changes; n != 1 {
		t.Errorf("%d changes since the root was lost, not 1", n)
	}
}
