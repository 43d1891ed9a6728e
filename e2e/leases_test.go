package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// leases of all workers, as they say themselves what they have; an error until all
// of them have IPv6 and IPv4.
func (w *world) leases(at *tier) (map[string]wire.Lease, error) {
	list, err := at.client().Workers.List(context.Background())
	if err != nil {
		return nil, err
	}
	out := map[string]wire.Lease{}
	for _, x := range list {
		if x.Lease == nil || x.Lease.Number == 0 || !x.Lease.IPv4.IsValid() {
			return nil, fmt.Errorf("%s has %+v", x.Name, x.Lease)
		}
		out[x.Name] = *x.Lease
	}
	return out, distinct(out)
}

func distinct(all map[string]wire.Lease) error {
	numbers, nets := map[uint32]string{}, map[string]string{}
	for name, l := range all {
		if other := numbers[l.Number] + nets[l.IPv4.String()]; other != "" {
			return fmt.Errorf("%s and %s share number %d or %s", other, name, l.Number, l.IPv4)
		}
		numbers[l.Number], nets[l.IPv4.String()] = name, name
	}
	return nil
}

// TestLeasesAreKept: what each worker has of the service network stays what it is
// when any process is killed and started again, when the root is lost and its backup
// restored, and when workers come and go.
func TestLeasesAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "edge", "fog")
	var before map[string]wire.Lease
	eventually(t, 10*time.Second, "all workers have their leases", func() (err error) {
		if before, err = w.leases(w.root); err == nil && len(before) != 4 {
			err = fmt.Errorf("%d workers", len(before))
		}
		return err
	})
	same := func(what string) {
		t.Helper()
		eventually(t, 20*time.Second, "the leases are what they were after "+what, func() error {
			now, err := w.leases(w.root)
			for name := range now {
				if _, known := before[name]; !known {
					delete(now, name)
				}
			}
			if err == nil && !maps.Equal(now, before) {
				err = fmt.Errorf("they were %+v and are %+v", before, now)
			}
			return err
		})
	}
	for name, l := range before {
		wantEqual(t, "prefix of "+name, l.Prefix, before["edge-1"].Prefix)
		wantEqual(t, "cluster of "+name, l.Cluster, w.worker[name].inCluster)
	}
	file := filepath.Join(w.dir, "root.backup")
	w.root.ok("backup", file, "--plain")

	t.Log("each role is killed and started again")
	w.worker["edge-1"].kill()
	w.worker["edge-1"].start()
	w.cluster["edge"].kill()
	w.cluster["edge"].start()
	w.root.kill()
	w.root.start()
	w.root.answers()
	w.cluster["edge"].answers()
	w.allReady()
	same("restarts")

	t.Log("a worker joins while the root is away")
	w.root.kill()
	w.addWorker("edge", "edge-3")
	var third wire.Lease
	eventually(t, 15*time.Second, "it has its lease", func() error {
		now, err := w.leases(w.cluster["edge"])
		third = now["edge-3"]
		if err == nil && third.Number == 0 {
			err = errors.New("it is not there")
		}
		return err
	})

	t.Log("the root is restored from a backup that does not know it")
	if err := os.RemoveAll(w.root.dir); err != nil {
		t.Fatal(err)
	}
	if r := verge(t, "", "restore", file, "--data-dir", w.root.dir); r.code != 0 {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	w.root.start()
	w.root.answers()
	w.allReady()
	before["edge-3"] = third
	same("a restore")

	t.Log("a worker is removed: nobody gets what it had")
	had := before["edge-2"]
	w.worker["edge-2"].kill()
	w.cluster["edge"].ok("remove", "worker/edge/edge-2", "--force")
	delete(w.worker, "edge-2")
	delete(before, "edge-2")
	w.addWorker("edge", "edge-4")
	eventually(t, 15*time.Second, "the next one has another", func() error {
		now, err := w.leases(w.cluster["edge"])
		if l := now["edge-4"]; err == nil && (l.Number == 0 || l.Number == had.Number || l.IPv4 == had.IPv4) {
			err = fmt.Errorf("it has %+v", l)
		}
		return err
	})
	w.allReady()
	same("the removal")
}
