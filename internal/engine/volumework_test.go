package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/engine/volumes"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// shelf is an object store in memory.
type shelf struct {
	mu     sync.Mutex
	put    map[string][]byte
	fails  error
	asked  int
	damage bool // gives something else than it was given
}

// be says how it fails from now on.
func (s *shelf) be(fails error, damage bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails, s.damage = fails, damage
}

// tries is how often it was asked to put something.
func (s *shelf) tries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *shelf) Put(_ context.Context, in rest.ObjectUpload) (apiv1.ObjectView, error) {
	b, err := io.ReadAll(io.LimitReader(in.Body, 1<<20))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if err = errors.Join(err, s.fails); err != nil {
		return apiv1.ObjectView{}, err
	}
	s.put[in.Namespace+"/"+in.Name] = b
	sum := sha256.Sum256(b)
	return apiv1.ObjectView{Size: int64(len(b)), Digest: "sha256:" + hex.EncodeToString(sum[:])}, nil
}

func (s *shelf) Get(_ context.Context, namespace, name, _ string) (objects.Got, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.put[namespace+"/"+name]
	if s.fails != nil || !ok {
		return objects.Got{}, errors.Join(s.fails, errors.New("no such object"))
	}
	if s.damage {
		b = bytes.Replace(b, []byte("counted 41"), []byte("counted 42"), 1)
	}
	return objects.Got{Body: io.NopCloser(bytes.NewReader(b))}, nil
}

// A volume goes through the object store, and is in its place only when all of it is
// what was packed. The one that it was made of stays.
func TestVolumesThroughTheObjectStore(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		store := &shelf{put: map[string][]byte{}}
		r.stop()
		r.volumes = store
		r.start()
		o := order(0, 1, 100)
		o.Spec.Volumes = []api.Volume{{Path: "var/data", Name: "data"}}
		r.apply(o)
		dir := filepath.Join(r.dir, volumes.Dir, "default", web0, "data")
		if err := os.WriteFile(filepath.Join(dir, "counter"), []byte("counted 41"), 0o600); err != nil {
			t.Fatal(err)
		}
		works := 0
		work := func(do string, list ...wire.VolumeObject) *wire.VolumeReport {
			t.Helper()
			works++
			stop := o
			stop.Stop, stop.Volumes = true, &wire.VolumeWork{Key: "k-" + strconv.Itoa(works), Do: do, Volumes: list}
			r.apply(stop)
			after(time.Minute)
			s := r.status(web0)
			if s.Phase != wire.PhaseStopped || s.Volumes == nil || s.Volumes.Do != do {
				t.Fatalf("%+v", s)
			}
			return s.Volumes
		}
		asked := wire.VolumeObject{Name: "data", Object: "volumes/" + web0 + "/data"}
		store.be(errors.New("it is away"), false)
		if got := work(wire.VolumePack, asked); got.Done || got.Final ||
			got.Why != "volume data: its cluster does not take it: it is away" {
			t.Errorf("%+v", got)
		}
		// It is tried again, but for what fails again.
		for status, final := range map[int]bool{413: true, 403: true, 408: false, 409: false, 429: false, 507: false} {
			store.be(wire.Problemf(status, "x", "", "no", ""), false)
			before := store.tries()
			if got := work(wire.VolumePack, asked); got.Done || got.Final != final ||
				(store.tries() == before+1) != final {
				t.Errorf("%d: %+v after %d tries", status, got, store.tries()-before)
			}
		}
		if err := os.Mkdir(filepath.Join(dir, "\xff"), 0o700); err != nil {
			t.Fatal(err)
		}
		store.be(nil, false)
		if got := work(wire.VolumePack, asked); got.Done || !got.Final || !strings.Contains(got.Why, "not UTF-8") {
			t.Errorf("%+v", got)
		}
		if err := os.Remove(filepath.Join(dir, "\xff")); err != nil {
			t.Fatal(err)
		}
		store.be(nil, false)
		after(10 * time.Second)
		got := work(wire.VolumePack, asked)
		if !got.Done || got.Volumes[0].Files != 1 || len(got.Volumes[0].Digest) != 64 {
			t.Fatalf("%+v", got)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "counter")); err != nil || string(b) != "counted 41" {
			t.Errorf("%q, %v", b, err)
		}
		packed := got.Volumes[0]
		// Elsewhere: here, with the volume out of the way.
		is := func(want string) {
			t.Helper()
			b, err := os.ReadFile(filepath.Join(dir, "counter"))
			if err != nil && want != "" || string(b) != want {
				t.Errorf("counter is %q, %v; want %q", b, err, want)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "counter"), []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := work(wire.VolumeUnpack, packed); got.Done || got.Final ||
			!strings.Contains(got.Why, "this worker has another volume of that name already: verge volume rm") ||
			!strings.Contains(got.Why, "--cancel") {
			t.Errorf("%+v", got)
		}
		is("1")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		store.be(nil, true)
		after(10 * time.Second)
		if got := work(wire.VolumeUnpack, packed); got.Done || !got.Final || !strings.Contains(got.Why, "digest") {
			t.Errorf("%+v", got)
		}
		is("")
		store.be(nil, false)
		after(10 * time.Second)
		if got := work(wire.VolumeUnpack, packed); !got.Done {
			t.Errorf("%+v", got)
		}
		is("counted 41")
		// Back to what was packed: what is there goes only when all has come.
		if err := os.WriteFile(filepath.Join(dir, "counter"), []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
		store.be(nil, true)
		if got := work(wire.VolumeRestore, packed); got.Done || !got.Final || !strings.Contains(got.Why, "digest") {
			t.Errorf("%+v", got)
		}
		is("1")
		store.be(nil, false)
		after(10 * time.Second)
		if got := work(wire.VolumeRestore, packed); !got.Done {
			t.Errorf("%+v", got)
		}
		is("counted 41")
		// An engine that comes back compares what is there.
		store.put = nil
		r.stop()
		r.start()
		after(10 * time.Second)
		if got := work(wire.VolumeUnpack, packed); !got.Done {
			t.Errorf("%+v", got)
		}
		if left, err := os.ReadDir(filepath.Join(r.dir, volumes.ArrivingDir)); err == nil && len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		o.Incarnation = 2
		r.apply(o)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || s.Volumes != nil && !s.Volumes.Done {
			t.Errorf("%+v", s)
		}
		is("counted 41")
	})
}
