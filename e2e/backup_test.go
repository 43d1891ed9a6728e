package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
)

// TestARootIsRestored backs a root up, applies more, loses its machine, and puts the
// backup in its place, under traffic.
func TestARootIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "edge")
	w.root.apply(shopOf(2, "1"))
	pass := w.file("pass", "correct horse battery")
	file := filepath.Join(w.dir, "root.backup")
	w.root.ok("backup", file, "--passphrase-file", pass)

	t.Log("what is acknowledged after the backup")
	w.root.apply(shopOf(3, "2"))
	w.root.apply(kioskOf(2))
	pids := everything(w)
	wantEqual(t, "instances", len(pids), 5)
	site := w.cluster["edge"]
	counts := incarnations(site)
	gates := []string{w.worker["edge-1"].gateway, w.worker["edge-2"].gateway}
	f, g := sendTraffic(t, shopHost, gates...), sendTraffic(t, kiosk, gates...)

	t.Log("the root's machine is lost")
	w.root.kill()
	if err := os.RemoveAll(w.root.dir); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"a wrong passphrase": {"restore", file, "--data-dir", w.root.dir, "--passphrase-file", w.file("pass", "wrong")},
		"no passphrase":      {"restore", file, "--data-dir", w.root.dir},
	} {
		if r := verge(t, "", args...); r.code != 1 {
			t.Errorf("%s: exit %d\n%s%s", name, r.code, r.out, r.err)
		}
	}
	t.Log("another root's backup in its place is another root: nobody listens to it")
	stranger := newRoot(t)
	theirs := filepath.Join(w.dir, "stranger.backup")
	stranger.root.ok("backup", theirs, "--plain")
	stranger.root.kill()
	if r := verge(t, "", "restore", theirs, "--data-dir", w.root.dir); r.code != 0 {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	w.root.start()
	w.root.answers()
	throughout(t, 3*time.Second, "nothing is touched by a stranger", func() error {
		if now := everything(w); !maps.Equal(now, pids) {
			return fmt.Errorf("processes were %v, are %v", pids, now)
		}
		if list := must[[]apiv1.ClusterView](t)(w.root.client().Clusters.List(context.Background())); len(list) > 0 {
			return fmt.Errorf("it has the clusters %+v", list)
		}
		return nil
	})
	w.root.kill()
	if err := os.RemoveAll(w.root.dir); err != nil {
		t.Fatal(err)
	}
	if r := verge(t, "", "restore", file, "--data-dir", w.root.dir, "--passphrase-file", pass); r.code != 0 {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	w.root.start()
	w.root.answers()
	w.allReady()

	t.Log("it learns what it lost, and nothing is touched")
	eventually(t, 20*time.Second, "the cluster has been asked", func() error {
		v, err := w.root.client().System.Recovery(context.Background())
		if err == nil && (v.Holding || len(v.Peers) != 1 || v.Peers[0].Asked.IsZero()) {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
	w.root.holds("kiosk", 15*time.Second)
	w.root.holds("shop", 15*time.Second)
	throughout(t, 3*time.Second, "nothing is touched", func() error {
		if now := everything(w); !maps.Equal(now, pids) {
			return fmt.Errorf("processes were %v, are %v", pids, now)
		}
		return nil
	})
	if now := incarnations(site); !maps.Equal(now, counts) {
		t.Errorf("incarnations were %v, are %v", counts, now)
	}
	v := must[apiv1.AppView](t)(w.root.client().Applications.Get(context.Background(), "shop"))
	wantEqual(t, "revision of shop", v.Revision, 2)
	if text := w.root.ok("recovery"); !strings.Contains(text, "kiosk") {
		t.Errorf("recovery says\n%s", text)
	}

	t.Log("it goes on")
	w.root.apply(shopOf(2, "3"))
	who := must[who](t)(whoami(gates[0], shopHost, "/whoami"))
	wantEqual(t, "mark", who.Mark, "3")
	f.noneFailed(t)
	g.noneFailed(t)
	w.root.ok("recovery", "finish")
	w.root.ok("delete", "application/kiosk", "--timeout", "40s")
}

// TestAClusterIsRestored does the same with the orchestrator of a site: what was
// placed after the backup runs on, and is known again.
func TestAClusterIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "edge")
	site := w.cluster["edge"]
	w.root.apply(shopOf(2, "1"))
	runs := filepath.Join(sharedDir(t), "runs")
	w.root.apply(fmt.Sprintf(`application: batch
services:
  nightly:
    command: [sh, -c, 'umask 0; echo $VERGE_JOB_RUN >> %s']
    volumes: [{path: runs, host: %s}]
    cron: {schedule: "30 2 29 2 *"}
`, runs, filepath.Dir(runs)))
	ran := func(want string) {
		t.Helper()
		b, _ := os.ReadFile(runs) // before the first run it is not there
		wantEqual(t, "runs of the job", strings.Join(strings.Fields(string(b)), " "), want)
	}
	w.root.ok("job", "run", "batch/nightly", "--timeout", "60s")
	file := filepath.Join(w.dir, "edge.backup")
	site.ok("backup", file, "--plain")
	w.root.apply(shopOf(4, "1"))
	w.root.apply(kioskOf(2))
	w.root.ok("job", "run", "batch/nightly", "--timeout", "60s")
	ran("1 2")
	once := filepath.Join(filepath.Dir(runs), "once")
	w.root.apply(fmt.Sprintf(`application: setup
services:
  schema:
    command: [sh, -c, 'umask 0; echo $VERGE_JOB_INDEX >> %s']
    volumes: [{path: once, host: %s}]
    job: {completions: 3, keep: 1s}
`, once, filepath.Dir(once)))
	ranOnce := func() {
		t.Helper()
		b := must[[]byte](t)(os.ReadFile(once))
		lines := strings.Fields(string(b))
		slices.Sort(lines)
		wantEqual(t, "indexes that have run", strings.Join(lines, " "), "0 1 2")
	}
	w.root.ok("wait", "job/setup.schema", "--for", "complete", "--timeout", "60s")
	ranOnce()
	pids := everything(w)
	wantEqual(t, "instances", len(pids), 6)
	gates := []string{w.worker["edge-1"].gateway, w.worker["edge-2"].gateway}
	f, g := sendTraffic(t, shopHost, gates...), sendTraffic(t, kiosk, gates...)
	site.kill()
	if err := os.RemoveAll(site.dir); err != nil {
		t.Fatal(err)
	}
	if r := verge(t, "", "restore", file, "--data-dir", site.dir); r.code != 0 {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	site.start()
	site.answers()
	eventually(t, 30*time.Second, "the recovery has ended", func() error {
		v, err := site.client().System.Recovery(context.Background())
		if err == nil && !v.Restored.IsZero() {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
	w.allReady()
	w.root.holds("kiosk", 15*time.Second)
	w.root.holds("shop", 15*time.Second)
	throughout(t, 2*time.Second, "nothing is touched", func() error {
		if now := everything(w); !maps.Equal(now, pids) {
			return fmt.Errorf("processes were %v, are %v", pids, now)
		}
		return nil
	})
	f.noneFailed(t)
	g.noneFailed(t)
	// What was asked for since the backup has run, which the root knows.
	eventually(t, 30*time.Second, "it is told which runs there were", func() error {
		if text := site.ok("events"); !strings.Contains(text, "the root knows of run 2") {
			return fmt.Errorf("events are\n%s", text)
		}
		return nil
	})
	w.root.ok("job", "run", "batch/nightly", "--timeout", "60s")
	ran("1 2 3")
	// So it does of the job that was applied since, which has completed and is not run again.
	eventually(t, 30*time.Second, "it is told what has completed", func() error {
		if text := site.ok("events"); !strings.Contains(text, "the root knows of 3 indexes") {
			return fmt.Errorf("events are\n%s", text)
		}
		return nil
	})
	throughout(t, 3*time.Second, "it is as it was", func() error { ranOnce(); return nil })
	w.root.apply(shopOf(2, "2"))
}

// TestAClusterOfAfterTheBackupJoinsAgain: a cluster that the backup does not know
// runs on, is told what to do, and what it runs is known again once it has.
func TestAClusterOfAfterTheBackupJoinsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, "edge")
	file := filepath.Join(w.dir, "root.backup")
	w.root.ok("backup", file, "--plain")
	fog := w.addCluster("fog")
	fog.answers()
	w.addWorker("fog", "fog-1")
	w.allReady()
	w.root.apply(strings.Replace(kioskOf(2), "    replicas: 2\n", "    replicas: 2\n    affinity: {cluster: [fog]}\n", 1))
	pids := everything(w)
	wantEqual(t, "instances", len(pids), 2)
	f := sendTraffic(t, kiosk, w.worker["fog-1"].gateway)
	w.root.kill()
	if err := os.RemoveAll(w.root.dir); err != nil {
		t.Fatal(err)
	}
	if r := verge(t, "", "restore", file, "--data-dir", w.root.dir); r.code != 0 {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	w.root.start()
	w.root.answers()
	fog.away()
	// Its link says so or its question, whichever is refused first.
	for x, want := range map[*tier]string{fog: "refused: ", w.root: "cluster fog asks to be let in"} {
		eventually(t, 15*time.Second, x.name+" says why and what to do", func() error {
			text := x.ok("status")
			if !strings.Contains(text, want) || !strings.Contains(text, "token create --cluster fog") {
				return fmt.Errorf("%s", text)
			}
			return nil
		})
	}

	t.Log("it joins again, with its keys and its store, and a new token")
	token := w.token(w.root, apiv1.TokenRequest{Kind: "cluster", Cluster: "fog"})
	fog.kill()
	for i, a := range fog.args {
		if a == "--token-file" {
			fog.args[i+1] = token
		}
	}
	fog.start()
	fog.answers()
	w.allReady()
	eventually(t, 20*time.Second, "what it runs is known again", func() error {
		v, err := w.root.client().Applications.Get(context.Background(), "kiosk")
		if err == nil && !v.Holds {
			err = fmt.Errorf("%s", v.Message)
		}
		return err
	})
	throughout(t, 2*time.Second, "nothing is touched", func() error {
		if now := everything(w); !maps.Equal(now, pids) {
			return fmt.Errorf("processes were %v, are %v", pids, now)
		}
		return nil
	})
	f.noneFailed(t)
}
