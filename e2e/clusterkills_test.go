package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// acked is what a cluster has acknowledged of one kind, by name. Each kind has one writer
// at a time, so what is there is the last acknowledged state, or that of the one write
// after it whose answer did not arrive.
type acked struct {
	have map[string]string
	// tried is the write under way: name to its value, or "" where it is removed.
	name, tried string
	writes      int
}

// write makes one change and notes it when it is acknowledged; "" removes the name.
func (a *acked) write(name, value string, do func() error) error {
	a.name, a.tried = name, value
	if err := do(); err != nil {
		return err
	}
	if a.writes++; value == "" {
		delete(a.have, name)
	} else {
		a.have[name] = value
	}
	a.name = ""
	return nil
}

// check compares with what is there, and goes on from that.
func (a *acked) check(t *testing.T, kind string, now map[string]string) {
	t.Helper()
	names := slices.Sorted(maps.Keys(now))
	for name := range a.have {
		if _, there := now[name]; !there {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if now[name] != a.have[name] && (name != a.name || now[name] != a.tried) {
			t.Errorf("%s %q: %q was acknowledged, it is %q", kind, name, a.have[name], now[name])
		}
	}
	a.have, a.name = now, ""
}

// kindOfWrite is one kind of change at the interface of a cluster.
type kindOfWrite struct {
	name string
	acked
	// one makes the n-th change.
	one func(ctx context.Context, c *client.Client, a *acked, n int) error
	// all reads what is there.
	all func(ctx context.Context, c *client.Client) (map[string]string, error)
}

// killKinds are the kinds of changes that a cluster takes by itself.
func killKinds(worker string) []*kindOfWrite {
	const few = 20 // names of each kind; the oldest goes when a new one comes
	return []*kindOfWrite{
		{
			name: "cordon",
			one: func(ctx context.Context, c *client.Client, a *acked, n int) error {
				if n%10 == 9 {
					return a.write(worker, "", func() error { return c.Workers.Uncordon(ctx, "edge", worker) })
				}
				why := fmt.Sprint("for ", n)
				return a.write(worker, why, func() error {
					_, err := c.Workers.Cordon(ctx, "edge", worker, rpc.CordonRequest{Reason: why})
					return err
				})
			},
			all: func(ctx context.Context, c *client.Client) (map[string]string, error) {
				out := map[string]string{}
				list, err := c.Workers.List(ctx)
				for _, v := range list {
					if v.Cordon != nil {
						out[v.Name] = v.Cordon.Why
					}
				}
				return out, err
			},
		},
		{
			name: "user",
			one: func(ctx context.Context, c *client.Client, a *acked, n int) error {
				if len(a.have) > few {
					name := slices.Min(slices.Collect(maps.Keys(a.have)))
					return a.write(name, "", func() error { return c.Users.Remove(ctx, name) })
				}
				name := fmt.Sprintf("u%08d", n)
				return a.write(name, "there", func() error {
					_, err := c.Users.Create(ctx, apiv1.UserRequest{Name: name, Roles: wire.Roles{Admin: true}})
					return err
				})
			},
			all: func(ctx context.Context, c *client.Client) (map[string]string, error) {
				out := map[string]string{}
				list, err := c.Users.List(ctx)
				for _, v := range list {
					out[v.Name] = "there"
				}
				return out, err
			},
		},
		{
			name: "local change",
			one: func(ctx context.Context, c *client.Client, a *acked, n int) error {
				app := fmt.Sprintf("local-%d", n%few)
				switch {
				case a.have[app] == "":
					return a.write(app, "0", func() error {
						_, err := c.Applications.Apply(ctx, []byte(unplaced(app, 0)), false)
						return err
					})
				case n%5 == 4:
					return a.write(app, "", func() error { return c.LocalChanges.Drop(ctx, app, "") })
				}
				replicas := n % 10
				return a.write(app, fmt.Sprint(replicas), func() error {
					_, err := c.Services.Scale(ctx, app, "main", replicas)
					return err
				})
			},
			all: func(ctx context.Context, c *client.Client) (map[string]string, error) {
				out := map[string]string{}
				v, err := c.LocalChanges.List(ctx)
				for _, l := range v.Changes {
					out[l.App] = fmt.Sprint(l.Replicas)
				}
				return out, err
			},
		},
		{
			name: "object",
			one: func(ctx context.Context, c *client.Client, a *acked, n int) error {
				name := fmt.Sprintf("object-%d", n%few)
				if n%7 == 6 && a.have[name] != "" {
					return a.write(name, "", func() error { _, err := c.Objects.Remove(ctx, "default", name); return err })
				}
				content := strings.Repeat(fmt.Sprintf("%d ", n), 100)
				return a.write(name, content, func() error {
					_, err := c.Objects.Put(ctx, rest.ObjectUpload{
						Namespace: "default", Name: name, Size: int64(len(content)), Body: bytes.NewReader([]byte(content)),
					})
					return err
				})
			},
			all: func(ctx context.Context, c *client.Client) (map[string]string, error) {
				out := map[string]string{}
				list, err := c.Objects.List(ctx, "default")
				for _, v := range list {
					o, err := c.Objects.Get(ctx, "default", v.Name, "")
					if err != nil {
						return nil, err
					}
					text, err := io.ReadAll(o.Body)
					if cerr := o.Body.Close(); err == nil {
						err = cerr
					}
					if err != nil {
						return nil, err
					}
					out[v.Name] = string(text)
				}
				return out, err
			},
		},
	}
}

// unplaced is an application that no worker has room for.
func unplaced(name string, replicas int) string {
	return fmt.Sprintf(`application: %s
services:
  main:
    command: [testprogram]
    replicas: %d
    resources: {cpu: 100}
`, name, replicas)
}

// TestKillsOfACluster kills an orchestrator of a site 200 times while it is written to,
// and more often while it starts. After each start everything that it had acknowledged is
// there, and what runs on its worker is not touched. The root is away for half of it.
func TestKillsOfACluster(t *testing.T) {
	kills := 200
	if testing.Short() {
		kills = 20
	}
	t.Parallel() // it waits much more than it computes
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // of a test
	w := emptyWorld(t, newDir(t))
	w.startRoot()
	edge := w.addCluster("edge")
	edge.answers()
	x := w.addWorker("edge", "edge-1")
	w.allReady()
	w.root.apply(plain("kept", "1", 2, 100))
	pids, counts := w.pids("kept"), incarnations(edge)
	wantEqual(t, "instances", len(pids), 2)
	kinds := killKinds(x.short)
	for _, k := range kinds {
		k.have = map[string]string{}
	}
	starting := 0
	for kill := range kills {
		if kill == kills/2 {
			w.root.kill()
		}
		c := edge.forSite()
		for _, k := range kinds {
			now, err := k.all(t.Context(), c)
			if err != nil {
				t.Fatalf("after kill %d, %s: %v", kill, k.name, err)
			}
			k.check(t, fmt.Sprintf("after kill %d, %s", kill, k.name), now)
		}
		wantEqual(t, "processes", fmt.Sprint(w.pids("kept")), fmt.Sprint(pids))
		if t.Failed() {
			return
		}
		edge.killWhileWrittenTo(t, c, kinds, kill, time.Duration(random.Int64N(int64(30*time.Millisecond))))
		c.Close()
		for random.IntN(4) == 0 {
			edge.start()
			select { // any moment of its start will do
			case <-edge.done:
				t.Fatalf("it ended by itself: %s", edge.text())
			case <-time.After(time.Duration(random.Int64N(int64(150 * time.Millisecond)))):
			}
			edge.kill()
			starting++
		}
		edge.start()
		edge.answers()
	}
	writes := map[string]int{}
	for _, k := range kinds {
		if writes[k.name] = k.writes; k.writes < kills {
			t.Errorf("%s: %d writes in %d kills", k.name, k.writes, kills)
		}
	}
	t.Logf("%d kills under writes, %d while it started; acknowledged %v", kills, starting, writes)
	w.root.start()
	w.root.answers()
	w.allReady()
	w.root.holds("kept", 40*time.Second)
	wantEqual(t, "processes", fmt.Sprint(w.pids("kept")), fmt.Sprint(pids))
	if now := incarnations(edge); !maps.Equal(now, counts) {
		t.Errorf("incarnations were %v, are %v", counts, now)
	}
}

// forSite is a client of its own, whose changes are meant for the site.
func (x *tier) forSite() *client.Client {
	x.w.t.Helper()
	e := must[client.Context](x.w.t)(client.ReadContext(x.contextFile()))
	return must[*client.Client](x.w.t)(client.New(e, client.WithLocalChanges()))
}

// killWhileWrittenTo kills a cluster in the midst of changes of all kinds, so long after
// the first of each kind was acknowledged.
func (x *tier) killWhileWrittenTo(t *testing.T, c *client.Client, kinds []*kindOfWrite, round int, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var writers sync.WaitGroup
	begun, failed := make(chan struct{}, len(kinds)), make(chan error, len(kinds))
	for _, k := range kinds {
		writers.Go(func() {
			for n := round * 10_000; ; n++ {
				if err := k.one(ctx, c, &k.acked, n); err != nil {
					failed <- fmt.Errorf("%s: %w", k.name, err)
					return
				}
				if n == round*10_000 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range kinds {
		select {
		case <-begun:
		case err := <-failed:
			t.Error(err)
		}
	}
	select { // a write that is refused is no kill
	case err := <-failed:
		t.Error(err)
	case <-time.After(after):
	}
	x.kill()
	cancel()
	writers.Wait()
}
