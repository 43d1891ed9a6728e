package container

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// A containerd that stands still is a problem although its process and its socket are
// there, and none any more when it goes on, without anybody asking it for anything.
func TestAContainerdThatStandsStillIsNoticed(t *testing.T) {
	if most := healthEvery + healthWithin; most > 10*time.Second {
		t.Errorf("it is noticed after up to %s", most)
	}
	c := containertest.Need(t)
	d := driver(t, c)
	d.healthEvery, d.healthWithin = 20*time.Millisecond, 200*time.Millisecond
	said := make(chan error)
	d.Report(func(err error) {
		select {
		case said <- err:
		case <-t.Context().Done():
		}
	}, func() {})
	// until takes what is said until it is as it should be: a machine that is busy may not
	// answer in time either.
	until := func(what string, is func(error) bool) {
		t.Helper()
		for {
			select {
			case err := <-said:
				if is(err) {
					return
				}
			case <-t.Context().Done():
				t.Fatalf("it is not said: %s", what)
			}
		}
	}
	well := func(err error) bool { return err == nil }
	until("it works", well)
	resume, err := c.Wedge()
	if err != nil {
		t.Fatal(err)
	}
	defer resume()
	until("it stands still", func(err error) bool {
		return errors.Is(err, runtime.ErrAway) && strings.Contains(err.Error(), "has not answered") && strings.Contains(err.Error(), "what runs goes on")
	})
	resume()
	until("it goes on", well)
}
