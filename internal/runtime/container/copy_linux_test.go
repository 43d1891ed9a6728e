package container

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
)

// adjacent is another worker's driver, as a neighbour.
type adjacent struct {
	d       *Driver
	pending bool
	// spoil changes what is read, at an offset of the layer.
	spoil func(at int64, p []byte) error
}

func (b *adjacent) Name() string  { return b.d.conn.Address }
func (b *adjacent) Pending() bool { return b.pending }

func (b *adjacent) Blob(ctx context.Context, image, digest string, offset int64) (io.ReadCloser, error) {
	blob, err := b.d.Blob(ctx, digest)
	if err != nil {
		if done, ok := b.d.Fetching(image); ok {
			return nil, &runtime.Fetching{Done: done}
		}
		return nil, err
	}
	if _, err := blob.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return &spoilt{blob, offset, b.spoil}, nil
}

type spoilt struct {
	io.ReadCloser
	at    int64
	spoil func(at int64, p []byte) error
}

func (s *spoilt) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if s.spoil != nil && err == nil {
		err = s.spoil(s.at, p[:n])
	}
	s.at += int64(n)
	return n, err
}

func near(d *Driver, list ...*adjacent) {
	d.Neighbours(func(context.Context, string) ([]runtime.Neighbour, error) {
		var out []runtime.Neighbour
		for _, b := range list {
			out = append(out, b)
		}
		return out, nil
	})
}

// Of four workers that begin at once one fetches an image, the others have it from
// there: the registry sends its layer once.
func TestNeighboursCopy(t *testing.T) {
	h := newHub(t)
	name, size := h.push(t, "shop/web:1", containertest.Config{Cmd: []string{"/bin/echo", "copied"}}, 8<<20)
	var drivers []*Driver
	var machines []*containertest.Containerd
	for range 4 {
		c := containertest.Need(t)
		machines = append(machines, c)
		drivers = append(drivers, driver(t, c))
	}
	for i, d := range drivers {
		var list []*adjacent
		for _, before := range drivers[:i] {
			list = append(list, &adjacent{d: before, pending: true})
		}
		near(d, list...)
	}
	h.sent.Store(0)
	var wg sync.WaitGroup
	for _, d := range drivers {
		wg.Go(func() { _ = fetched(t, d, specOf(t, name), "of many", "") })
	}
	wg.Wait()
	t.Logf("the registry sent %d bytes to 4 workers of a layer of %d", h.sent.Load(), size)
	if sent := h.sent.Load(); sent > size+4*(64<<10) {
		t.Errorf("the registry sent %d bytes of a layer of %d", sent, size)
	}
	for i, d := range drivers {
		if out, _ := run(t, d, specOf(t, name)); out != "copied\n" {
			t.Errorf("%d: it says %q", i, out)
		}
		if registry, others := d.Copied(); (i == 0) != (others == 0) || i > 0 && (others != size || registry > 64<<10) {
			t.Errorf("%d: %d bytes came from the registry, %d from others", i, registry, others)
		}
		empty(t, machines[i])
	}
}

// What neighbours send is checked, and what they do not send the registry has.
func TestNeighboursThatFail(t *testing.T) {
	h := newHub(t)
	name, size := h.push(t, "shop/web:1", containertest.Config{Cmd: []string{"/bin/echo", "well"}}, 4<<20)
	source := driver(t, containertest.Need(t))
	if fetched(t, source, specOf(t, name), "the source", "") != nil {
		return
	}
	cut := func(at int64, _ []byte) error {
		if at > size/2 {
			return errors.New("the line is cut")
		}
		return nil
	}
	idle := driver(t, containertest.Need(t))
	for what, x := range map[string]struct {
		of   *adjacent
		most int64 // bytes from the registry
	}{
		"one that lies": {&adjacent{d: source, spoil: func(_ int64, p []byte) error { p[0] ^= 1; return nil }}, size + 64<<10},
		"cut off":       {&adjacent{d: source, spoil: cut}, size*3/4 + 64<<10},
		"has nothing":   {&adjacent{d: idle}, size + 64<<10},
		"never begins":  {&adjacent{d: idle, pending: true}, size + 64<<10},
		"never ends":    {&adjacent{d: stuck(t, name)}, size + 64<<10},
	} {
		c := containertest.Need(t)
		d := driver(t, c)
		d.SetWaits(imagestore.Waits{Begin: 200 * time.Millisecond, GoOn: 300 * time.Millisecond, Again: 10 * time.Millisecond})
		near(d, x.of)
		h.sent.Store(0)
		if fetched(t, d, specOf(t, name), what, "") == nil {
			if sent := h.sent.Load(); sent > x.most {
				t.Errorf("%s: the registry sent %d bytes of %d, at most %d were expected", what, sent, size, x.most)
			}
			if out, _ := run(t, d, specOf(t, name)); out != "well\n" {
				t.Errorf("%s: it says %q", what, out)
			}
		}
		empty(t, c)
	}
}

// stuck is a worker that fetches an image for ever.
func stuck(t *testing.T, name string) *Driver {
	t.Helper()
	d := driver(t, containertest.Need(t))
	if _, err := d.Alone(t.Context(), name, func(string) {}); err != nil {
		t.Fatal(err)
	}
	return d
}
