package peer

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/overlay/wg"
)

// deviceOf is a device with one peer, which counts how often it was removed.
type deviceOf struct {
	Device
	key     wg.Key
	status  wg.Status
	removed int
}

func (d *deviceOf) Peers() (map[wg.Key]wg.Status, error) {
	return map[wg.Key]wg.Status{d.key: d.status}, nil
}

func (d *deviceOf) Set(p wg.Peer) error { d.status.Endpoint = p.Endpoint; return nil }

func (d *deviceOf) Remove(k wg.Key) error {
	if k != d.key {
		return errors.New("another peer")
	}
	d.removed++
	return nil
}

// A handshake that is under way at a candidate is not begun again: the other side takes the
// second for a repetition, and answers the first to nobody. After a while, or at another
// candidate, it is.
func TestAHandshakeIsNotBegunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deviceOf{key: wg.Key{1}, status: wg.Status{Endpoint: direct}}
		m := &Manager{opts: Options{Device: d}}
		r := round{of: &known{changed: time.Now()}, peer: wg.Peer{Key: d.key}}
		for _, c := range []struct {
			after   time.Duration
			at      netip.AddrPort
			removed int
		}{{time.Millisecond, direct, 0}, {wait, direct, 1}, {0, direct, 1}, {time.Millisecond, other, 2}} {
			time.Sleep(c.after)
			if err := m.aim(t.Context(), r, c.at); err != nil || d.removed != c.removed || d.status.Endpoint != c.at {
				t.Errorf("%s later, at %s: %v, removed %d times, want %d", c.after, c.at, err, d.removed, c.removed)
			}
		}
	})
}
