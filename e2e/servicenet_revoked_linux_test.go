package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// netchecked is what verge netcheck says of the way from a worker to the one other
// of a cluster.
func (s *terrain) netchecked(from, cluster string) (p rpc.NetPeer, err error) {
	s.t.Helper()
	out := s.output(from[:1], programs.verge, "netcheck", "--from", from, "-o", "json", "--context", s.Dir(from[:1])+"/context.yaml")
	var r rpc.NetReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return p, fmt.Errorf("%w: %s", err, out)
	}
	r.Peers = slices.DeleteFunc(r.Peers, func(p rpc.NetPeer) bool { return p.Cluster != cluster })
	if len(r.Peers) != 1 {
		return p, fmt.Errorf("it has %d ways there: %+v", len(r.Peers), r.Peers)
	}
	return r.Peers[0], nil
}

// netchecksRelay: the way through a relay is told as one, with why, and what it was
// measured over.
func (s *terrain) netchecksRelay(t *testing.T) {
	eventually(t, 20*time.Second, "netcheck says how a-home reaches b-home", func() error {
		p, err := s.netchecked("a-home", "b")
		switch {
		case err != nil:
			return err
		case p.Path != wire.PathRelay || p.Via != "WireGuard through relay root":
			return fmt.Errorf("path %s via %q", p.Path, p.Via)
		case !strings.Contains(p.Why, "none of its addresses answered"):
			return fmt.Errorf("why: %q", p.Why)
		// There and back over two links of a millisecond each.
		case p.Source != "measured" || p.Over != rpc.OverTunnel || p.RTT.Std() < 4*time.Millisecond:
			return fmt.Errorf("RTT %s, %s over %q", p.RTT.Std(), p.Source, p.Over)
		case p.Worker == "b-home":
			return errors.New("another cluster's worker is called by its own name")
		}
		return nil
	})
	eventually(t, 20*time.Second, "netcheck says how a-1 reaches b-home", func() error {
		p, err := s.netchecked("a-1", "b")
		if err == nil && (p.Path != wire.PathDirect || !strings.HasPrefix(p.Via, "WireGuard to ") || p.Over != rpc.OverTunnel) {
			err = fmt.Errorf("%+v", p)
		}
		return err
	})
}

// revoked: who is taken out is reached by nobody and reaches nobody, by tunnel or
// relay, although all of it still runs.
func (s *terrain) revoked(t *testing.T) {
	const gone = "b-home"
	s.reach("a-1", gone)
	s.reach(gone, "a-1")
	s.reach("a-home", gone)
	pids := map[string]int{}
	for worker, r := range s.front {
		pids[worker] = s.pid(r.id)
	}
	at := func(worker string) string { return netip.AddrPortFrom(s.front[worker].addr, 80).String() }
	dial := func(from, to string) error {
		return within(t, pids[from], func() error {
			c, err := net.DialTimeout("tcp", at(to), time.Second)
			if err == nil {
				_ = c.Close() // nothing was written
			}
			return err
		})
	}
	// none says which of some ways there is.
	none := func(ways [][2]string) error {
		var all sync.WaitGroup
		errs := make([]error, len(ways))
		for i, w := range ways {
			all.Go(func() {
				if dial(w[0], w[1]) == nil {
					errs[i] = fmt.Errorf("from %s to %s there is a way", w[0], w[1])
				}
			})
		}
		all.Wait()
		return errors.Join(errs...)
	}
	ways := [][2]string{{"a-1", gone}, {gone, "a-1"}, {"a-home", gone}, {gone, "a-home"}, {"a-2", gone}}
	for _, w := range ways[:4] { // a second may be too short on a busy machine
		eventually(t, 20*time.Second, "before: a way from "+w[0]+" to "+w[1], func() error { return dial(w[0], w[1]) })
	}
	begin := time.Now()
	s.output("b", programs.verge, "revoke", "worker/"+gone, "--context", s.Dir("b")+"/context.yaml")
	eventually(t, 20*time.Second, "nothing reaches "+gone+", and it reaches nothing", func() error {
		return none(ways)
	})
	t.Logf("no way was left %s after the command, with a second's patience", time.Since(begin).Round(10*time.Millisecond))
	for _, from := range []string{"a-1", "a-2", "a-home"} {
		eventually(t, 20*time.Second, from+" has no path to "+gone, func() error {
			got, err := s.paths("a", from)
			if n := got["b direct"] + got["b relay"] + got["b none"]; err == nil && n > 0 {
				err = fmt.Errorf("it has %v", got)
			}
			return err
		})
	}
	eventually(t, 20*time.Second, "no route leads to "+gone, func() error {
		c, err := s.Client("a")
		if err != nil {
			return err
		}
		r, err := c.Workers.Route(t.Context(), "a", "a-1", "shop", "front")
		if err != nil {
			return err
		}
		for _, e := range r.Endpoints {
			if e.Cluster == "b" {
				return fmt.Errorf("%+v", e)
			}
		}
		return nil
	})
	if w := s.worker("b", gone); w.Revoked.IsZero() {
		t.Errorf("its cluster says of it %+v", w)
	}
	if _, err := s.fetch(gone, at(gone), "", "/whoami", 5*time.Second); err != nil {
		t.Errorf("what runs there does not any more, so that nothing was shown: %v", err)
	}
	// What knew it beyond its cluster did not know its name.
	for _, host := range []string{"root", "a-1", "a-2", "a-home"} {
		for _, file := range []string{s.Log(host), filepath.Join(s.Dir(host), "engine.log")} {
			b, err := os.ReadFile(file)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(b)) {
				if strings.Contains(line, gone) {
					t.Errorf("%s: %s", file, line)
				}
			}
		}
	}
	// It asks again, of peers and of the relay, and is not let in.
	throughout(t, 3*time.Second, gone+" is kept out", func() error {
		return none([][2]string{{gone, "a-1"}, {gone, "a-home"}})
	})
	s.reach("a-1", "a-2")
	s.reach("a-home", "a-1")
}
