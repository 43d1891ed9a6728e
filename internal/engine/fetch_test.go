package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/supervise"
	"github.com/verge-edge/verge/internal/engine/volumes"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// fakeImager starts nothing before it has the image.
type fakeImager struct {
	*fakeDriver

	mu      sync.Mutex
	fetches int
	errs    []error       // of the first fetches
	takes   time.Duration // each, and half-way it tells how far it is
	ended   int           // fetches that were told to end
}

func (d *fakeImager) Name() string { return api.Container }

func (d *fakeImager) Fetch(ctx context.Context, s runtime.Spec, progress func(string)) error {
	d.mu.Lock()
	var err error
	if d.fetches < len(d.errs) {
		err = d.errs[d.fetches]
	}
	d.fetches++
	half := d.takes / 2
	d.mu.Unlock()
	for range 2 {
		select {
		case <-time.After(half):
			progress("pulling " + s.Container.Image)
		case <-ctx.Done():
			d.mu.Lock()
			d.ended++
			d.mu.Unlock()
			return ctx.Err()
		}
	}
	return err
}

func (d *fakeImager) counts() (fetches, ended int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fetches, d.ended
}

func contained(revision uint64) wire.Order {
	o := order(0, 1, 100)
	o.Revision, o.Spec.Runtime, o.Spec.Image, o.Spec.Command = revision, api.Container,
		fmt.Sprintf("shop:%d", revision), nil
	return o
}

// withImager gives a fresh engine a driver of containers.
func withImager(r *rig, takes time.Duration, errs ...error) *fakeImager {
	d := &fakeImager{fakeDriver: newFakeDriver(), takes: takes, errs: errs}
	r.stop()
	r.more = map[string]runtime.Driver{api.Container: d}
	r.start()
	return d
}

func TestAnImageIsFetchedBeforeTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		d := withImager(r, time.Minute)
		r.apply(contained(1))
		after(40 * time.Second)
		if s := r.status(web0); s.Phase != wire.PhasePending || s.Why != "pulling shop:1" {
			t.Errorf("half-way: %+v", s)
		}
		if n := d.starts(web0); n != 0 {
			t.Errorf("%d starts without an image", n)
		}
		after(30 * time.Second)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || s.Restarts != 0 {
			t.Errorf("with its image: %+v", s)
		}
	})
}

func TestAFetchEndsWhenAnotherIsWanted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		d := withImager(r, time.Hour)
		r.apply(contained(1))
		after(time.Minute)
		next := contained(2)
		next.Incarnation = 2
		r.apply(next)
		after(time.Minute)
		if fetches, ended := d.counts(); fetches != 2 || ended != 1 {
			t.Errorf("%d fetches, of which %d were ended", fetches, ended)
		}
		r.apply()
		after(time.Minute)
		if _, ended := d.counts(); ended != 2 || d.starts(web0) != 0 {
			t.Errorf("no longer wanted: %d ended, %d starts", ended, d.starts(web0))
		}
	})
}

// TestASleeperHasWhatItNeeds: nobody who wakes it waits for a download.
func TestASleeperHasWhatItNeeds(t *testing.T) {
	sleeping := func(revision uint64) wire.Order {
		o := contained(revision)
		o.Sleep = &wire.Sleep{Idle: api.Duration(time.Minute)}
		return o
	}
	t.Run("asleep", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			d := withImager(r, time.Minute)
			r.apply(sleeping(1))
			after(40 * time.Second)
			if s := r.status(web0); s.Phase != wire.PhasePending || !s.Asleep || s.Why != "pulling shop:1" {
				t.Errorf("half-way: %+v", s)
			}
			after(30 * time.Second)
			if s := r.status(web0); !s.Asleep || s.Why != supervise.WhyAsleep || d.starts(web0) != 0 {
				t.Errorf("with its image: %+v, %d starts", s, d.starts(web0))
			}
			r.apply(sleeping(1)) // as before
			after(time.Hour)
			if fetches, _ := d.counts(); fetches != 1 {
				t.Errorf("%d fetches", fetches)
			}
		})
	})
	t.Run("woken meanwhile", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			d := withImager(r, time.Minute)
			r.apply(sleeping(1))
			after(40 * time.Second)
			r.e.Wake(web0) // which does not begin anew
			after(30 * time.Second)
			if fetches, ended := d.counts(); fetches != 2 || ended != 0 {
				t.Errorf("woken meanwhile: %d fetches, of which %d were ended", fetches, ended)
			}
			after(time.Minute) // its start asks once more, here for as long
			if d.starts(web0) != 1 {
				t.Errorf("woken meanwhile: %+v", r.status(web0))
			}
		})
	})
	t.Run("away", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			d := withImager(r, 0, fmt.Errorf("the registry: %w", runtime.ErrAway))
			r.apply(sleeping(1))
			after(time.Second)
			if s := r.status(web0); !s.Asleep || !strings.Contains(s.Why, "the registry") {
				t.Errorf("without it: %+v", s)
			}
			r.e.Wake(web0)
			after(time.Second)
			if s := r.status(web0); s.Phase != wire.PhaseRunning || d.starts(web0) != 1 {
				t.Errorf("woken: %+v", s)
			}
		})
	})
}

func TestNobodyFailsWhileARegistryIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		away := fmt.Errorf("the registry: %w", runtime.ErrAway)
		d := withImager(r, 0, away, away, errors.New("there is no image shop:1 in its registry"))
		r.apply(contained(1))
		after(time.Second)
		if s := r.status(web0); s.Phase != wire.PhasePending || s.Restarts != 0 ||
			!strings.Contains(s.Why, "waiting: the registry") || !strings.Contains(s.Why, "2s") {
			t.Errorf("away: %+v", s)
		}
		after(2 * supervise.AwayFirst)
		if s := r.status(web0); s.Restarts != 0 || !strings.Contains(s.Why, "4s") {
			t.Errorf("still away: %+v", s)
		}
		// That there is none is a failure, after which it is tried again soon.
		after(time.Minute)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || s.Restarts != 1 {
			t.Errorf("at last: %+v", s)
		}
		if fetches, _ := d.counts(); fetches != 4 {
			t.Errorf("%d fetches", fetches)
		}
	})
}

// TestWhyItIsFetchedAgain: what went wrong is told while it is tried again, too, which
// may take much longer than the pause between two tries.
func TestWhyItIsFetchedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		withImager(r, time.Minute, fmt.Errorf("registry.test sent nothing for 30s: %w", runtime.ErrAway))
		r.apply(contained(1))
		after(40 * time.Second)
		if s := r.status(web0); s.Why != "pulling shop:1" {
			t.Errorf("at first: %+v", s)
		}
		after(time.Minute) // half of the second try
		if s := r.status(web0); s.Phase != wire.PhasePending ||
			!strings.HasPrefix(s.Why, "pulling shop:1, again after: registry.test sent nothing for 30s") {
			t.Errorf("the second time: %+v", s)
		}
		after(time.Minute)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || strings.Contains(s.Why, "sent nothing") {
			t.Errorf("with its image: %+v", s)
		}
	})
}

func TestFilesAndVolumesOfAContainerAreMounts(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		d := withImager(r, 0)
		o := contained(1)
		o.Spec.Files = map[string]api.File{"/etc/app.ini": {Content: "port=${PORT}"}, "conf/b": {Content: "x"}}
		o.Spec.Volumes = []api.Volume{{Name: "data", Path: "/data"}, {Path: "/scratch", Tmpfs: 4096}}
		r.apply(o)
		after(time.Second)
		if d.starts(web0) != 1 {
			t.Fatalf("%+v", r.status(web0))
		}
		s := d.last()
		if s.Dir != "" || len(s.Command) != 0 {
			t.Errorf("directory and command are the image's: %+v", s)
		}
		work := filepath.Join(r.dir, state.InstancesDir, web0, "work")
		want := []runtime.Mount{
			{Source: filepath.Join(work, "file-0"), Target: "/etc/app.ini", Own: true},
			{Source: filepath.Join(work, "file-1"), Target: "conf/b", Own: true},
			{Source: filepath.Join(r.dir, volumes.Dir, "default", web0, "data"), Target: "/data", Own: true},
			{Tmpfs: 4096, Target: "/scratch"},
		}
		if got := s.Container.Mounts; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("mounts\n%+v, want\n%+v", got, want)
		}
	})
}
