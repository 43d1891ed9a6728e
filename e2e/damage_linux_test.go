package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
)

// What a role does about a damaged file.
const (
	refuses = "refuses" // it ends and says which file it is
	heals   = "heals"   // it works, with all that was acknowledged
	either  = "either"  // as the damage can be seen or not
)

// kept are the files that roles keep, by a pattern of their path, and what becomes
// of a role if one of them is damaged. One that is not here fails the test. A key
// of which a bit has changed is refused unless it is the same key all the same: a
// bit of its name, or of what can be computed again.
var kept = map[string]map[string]string{
	"root": {
		"authority.pem":              refuses,
		"key.pem":                    either,
		"identity.pem":               either,
		"seal.key":                   either,
		"context.yaml":               either,
		"last-time":                  heals,
		"bus/bus.json":               either,
		"bus/store":                  either,
		storeFiles + "meta.inf":      either,
		storeFiles + "meta.sum":      either,
		storeFiles + "msgs/1.blk":    refuses,
		storeFiles + "msgs/index.db": heals,
	},
	"edge": {
		"cluster-ca.pem":             refuses,
		"cluster-ca-key.pem":         either,
		"key.pem":                    either,
		"identity.pem":               either,
		"joined.json":                either,
		"token-seen.json":            heals,
		"bus.key":                    refuses,
		"seal.key":                   either,
		"context.yaml":               either,
		"last-time":                  heals,
		"bus/bus.json":               either,
		"bus/store":                  either,
		storeFiles + "meta.inf":      either,
		storeFiles + "meta.sum":      either,
		storeFiles + "msgs/1.blk":    refuses,
		storeFiles + "msgs/index.db": heals,
	},
	"edge-1": {
		"identity/key.pem":         either,
		"identity/identity.pem":    either,
		"identity/away.pem":        heals,
		"identity/joined.json":     either,
		"identity/token-seen.json": heals,
		"identity/bus.key":         refuses,
		"identity/seal.key":        either,
		"identity/last-time":       heals,
		"engine.json":              heals,
		"orders.json":              heals,
		"router.json":              heals,
		"objects.json":             heals,
		"instances/*/state.json":   heals,
	},
}

// storeFiles is where the log of a store is.
const storeFiles = "bus/jetstream/jetstream/*/streams/STORE/"

// notKept are files of which nothing depends: locks, sockets' locks, and what
// people and instances read and write; and the log of what changed, which comes and
// goes: package orders tests every damage of it.
var notKept = []string{"*.lock", "orders.log", "bus/lock", "engine.log", "instances/*/log/*"}

// damages of a file that has some bytes.
func damagesOf(good []byte) map[string][]byte {
	flipped := bytes.Clone(good)
	flipped[len(good)/2] ^= 4
	random := make([]byte, len(good))
	source := rand.New(rand.NewPCG(uint64(len(good)), 1))
	for i := range random {
		random[i] = byte(source.Uint32())
	}
	return map[string][]byte{"empty": nil, "half of it": good[:len(good)/2], "one bit flipped": flipped, "random bytes": random}
}

// TestDamagedFiles damages each file that a role keeps, in each way. The role says
// what is damaged and where, and ends; or it works, and everything that was
// acknowledged is there. It never panics, never makes itself a new identity, and
// instances and the other roles go on.
func TestDamagedFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	w.root.apply(plain("kept", "1", 1, 100))
	pids := w.pids("kept")
	x := w.worker["edge-1"]
	same := func(t *testing.T) {
		t.Helper()
		if now := w.pids("kept"); fmt.Sprint(now) != fmt.Sprint(pids) {
			t.Errorf("instances were %v and are %v", pids, now)
		}
	}
	// Each case puts back what was damaged, so one that fails leaves the others alone.
	run := func(name string, part func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			whole := w.t
			w.t = t
			defer func() { w.t = whole }()
			part(t)
		})
	}
	for _, tier := range []*tier{w.root, w.cluster["edge"]} {
		tier.inOrder()
		copied := filepath.Join(w.dir, tier.name+".kept")
		if err := os.CopyFS(copied, os.DirFS(tier.dir)); err != nil {
			t.Fatal(err)
		}
		for _, file := range keptFiles(t, copied, kept[tier.name]) {
			run(tier.name+" "+kindOf(file, kept[tier.name]), func(t *testing.T) {
				w.damagedTier(t, tier, copied, file)
				same(t)
			})
		}
		restore(t, tier, copied)
		tier.start()
		tier.answers()
	}
	w.allReady()
	for _, file := range keptFiles(t, x.dir, kept["edge-1"]) {
		run("worker "+kindOf(file, kept["edge-1"]), func(t *testing.T) {
			w.damagedWorker(t, x, file)
			if strings.HasSuffix(file, "state.json") || strings.HasSuffix(file, "joined.json") {
				w.newerWorker(t, x, file)
			}
			if strings.HasSuffix(file, "state.json") {
				pids = w.pids("kept") // started anew: nobody can know whose it was
			}
			same(t)
		})
	}
	w.root.holds("kept", 30*time.Second)
	run("backup", w.damagedBackup)
	run("context", w.damagedContext)
	run("settings", w.damagedSettings)
}

// inOrder ends a tier as an operator would.
func (x *tier) inOrder() {
	x.w.t.Helper()
	x.signal(syscall.SIGTERM)
	x.wait()
}

// kindOf is the pattern that a file matches, "" for none.
func kindOf(file string, kinds map[string]string) string {
	for pattern := range kinds {
		if ok, err := path.Match(pattern, file); ok && err == nil {
			return pattern
		}
	}
	return ""
}

// keptFiles are the files of a role. One that nobody has thought of fails the
// test.
func keptFiles(t *testing.T, dir string, kinds map[string]string) (out []string) {
	t.Helper()
	missing := map[string]bool{}
	for pattern := range kinds {
		missing[pattern] = true
	}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, p)
		for _, pattern := range notKept {
			if ok, _ := path.Match(pattern, name); ok {
				return err
			}
		}
		kind := kindOf(name, kinds)
		if kind == "" {
			t.Errorf("%s keeps %s, and nobody has said what becomes of it when that is damaged", filepath.Base(dir), name)
			return err
		}
		delete(missing, kind)
		out = append(out, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for pattern := range missing {
		t.Errorf("%s has no %s", filepath.Base(dir), pattern)
	}
	return out
}

func restore(t *testing.T, x *tier, copied string) {
	t.Helper()
	if err := os.RemoveAll(x.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(x.dir, os.DirFS(copied)); err != nil {
		t.Fatal(err)
	}
	tighten(t, x.dir)
}

// judge holds what is true of every damage: said is what the role has written.
func judge(t *testing.T, how, file, want, said string, works bool) {
	t.Helper()
	if strings.Contains(said, "goroutine ") || strings.Contains(said, "panic") {
		t.Errorf("%s: it panics:\n%s", how, said)
	}
	if !works && !strings.Contains(said, filepath.Base(file)) && !(strings.Contains(file, "bus/jetstream/") && strings.Contains(said, ".d/bus")) {
		t.Errorf("%s: it ends and does not name the file:\n%s", how, said)
	}
	if works && want == refuses {
		t.Errorf("%s: it works, and nobody can know with what:\n%s", how, said)
	}
	if !works && want == heals {
		t.Errorf("%s: it ends:\n%s", how, said)
	}
}

func (w *world) damagedTier(t *testing.T, x *tier, copied, file string) {
	t.Helper()
	good := must[[]byte](t)(os.ReadFile(filepath.Join(copied, file)))
	entry := must[client.Context](t)(client.ReadContext(filepath.Join(copied, "context.yaml")))
	want := kept[x.name][kindOf(file, kept[x.name])]
	for how, bad := range damagesOf(good) {
		restore(t, x, copied)
		if err := os.WriteFile(filepath.Join(x.dir, file), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		before := len(x.text())
		x.start()
		client := must[*client.Client](t)(client.New(entry))
		eventually(t, time.Minute, how+": it ends, or works and what was acknowledged is there", func() error {
			if !x.running() {
				return nil // it may have listened before
			}
			v, err := client.Applications.Get(context.Background(), "kept")
			if err == nil && (len(v.Services) != 1 || v.Services[0].Wanted != 1) {
				err = fmt.Errorf("%+v", v)
			}
			if err != nil {
				return err
			}
			list, err := client.Instances.List(context.Background(), "", "")
			if err == nil && (len(list) != 1 || list[0].ID != "kept.main.0") {
				err = fmt.Errorf("%+v", list)
			}
			return err
		})
		client.Close()
		works := x.running()
		if x.running() {
			x.kill()
		}
		judge(t, how, file, want, x.text()[before:], works)
		for _, key := range []string{"key.pem", "cluster-ca-key.pem", "bus.key", "seal.key", "authority.pem"} {
			was, err := os.ReadFile(filepath.Join(copied, key))
			if err != nil || key == file {
				continue
			}
			if now, err := os.ReadFile(filepath.Join(x.dir, key)); err != nil || !bytes.Equal(was, now) {
				t.Errorf("%s: it made itself another %s (%v)", how, key, err)
			}
		}
	}
}

// endBoth kills an agent and its engine; the instances are left.
func (x *worker) endBoth() {
	x.w.t.Helper()
	if x.running() {
		x.kill()
	}
	eventually(x.w.t, 20*time.Second, "the engine has ended", func() error {
		for _, p := range processesOf(x.dir) {
			if p.env["VERGE_INSTANCE"] == "" {
				_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended by itself
				return errors.New(describe([]process{p}))
			}
		}
		return nil
	})
}

func (w *world) damagedWorker(t *testing.T, x *worker, file string) {
	t.Helper()
	want := kept["edge-1"][kindOf(file, kept["edge-1"])]
	at := filepath.Join(x.dir, file)
	good := must[[]byte](t)(os.ReadFile(at))
	for how, bad := range damagesOf(good) {
		x.endBoth()
		was := must[[]byte](t)(os.ReadFile(at))
		if err := os.WriteFile(at, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		before := len(x.text())
		x.start()
		works := false
		eventually(t, time.Minute, how+": it works or ends", func() error {
			if !x.running() {
				return nil
			}
			if err := w.worksAgain(x, before); err != nil {
				return err
			}
			works = true
			return nil
		})
		judge(t, how, file, want, x.text()[before:], works)
		if works {
			continue
		}
		// The operator puts it back, and all is well.
		x.endBoth()
		if err := os.WriteFile(at, was, 0o600); err != nil {
			t.Fatal(err)
		}
		before = len(x.text())
		x.start()
		eventually(t, time.Minute, how+": it works again", func() error { return w.worksAgain(x, before) })
	}
}

// newerWorker lets a file be of a form that only a newer program knows: the worker says so
// and leaves it as it is, what runs goes on, and so does the worker when the file is back.
func (w *world) newerWorker(t *testing.T, x *worker, file string) {
	t.Helper()
	at, log := filepath.Join(x.dir, file), filepath.Join(x.dir, "engine.log")
	pids := w.pids("kept")
	x.endBoth()
	was := must[[]byte](t)(os.ReadFile(at))
	newer := bytes.Replace(was, []byte(`"v":1`), []byte(`"v":9`), 1)
	if bytes.Equal(newer, was) {
		t.Fatalf("it has no form: %.80s", was)
	}
	if err := os.WriteFile(at, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	before, engineBefore := len(x.text()), len(must[[]byte](t)(os.ReadFile(log)))
	x.start()
	eventually(t, time.Minute, "it says that it does not know the form", func() error {
		said, err := os.ReadFile(log)
		text := x.text()[before:] + string(said[min(engineBefore, len(said)):])
		if err == nil && !strings.Contains(text, file+" is of form 9") {
			err = fmt.Errorf("it says: %s", text)
		}
		return err
	})
	x.endBoth()
	if now := must[[]byte](t)(os.ReadFile(at)); !bytes.Equal(now, newer) {
		t.Errorf("it has changed %s to %s", newer, now)
	}
	if err := os.WriteFile(at, was, 0o600); err != nil {
		t.Fatal(err)
	}
	before = len(x.text())
	x.start()
	eventually(t, time.Minute, "it works again", func() error { return w.worksAgain(x, before) })
	if now := w.pids("kept"); fmt.Sprint(now) != fmt.Sprint(pids) {
		t.Errorf("instances were %v and are %v", pids, now)
	}
}

// worksAgain is nil if a worker whose log had so many bytes before its start
// works: it talks with its cluster, and its engine answers for the instance.
func (w *world) worksAgain(x *worker, before int) error {
	if !strings.Contains(x.text()[before:], "the cluster answers") {
		return errors.New("the cluster does not answer it")
	}
	i, err := w.cluster["edge"].client().Instances.Get(context.Background(), "kept.main.0")
	if err == nil && (!i.Ready || i.Unreachable) {
		err = fmt.Errorf("the instance is %s, ready %v", i.State, i.Ready)
	}
	if err != nil {
		return err
	}
	_, err = fetch(x.gateway, "kept.test", "/whoami")
	return err
}

func (w *world) damagedBackup(t *testing.T) {
	pass := w.file("pass-", "correct horse battery")
	file := filepath.Join(w.dir, "root.backup")
	w.root.ok("backup", file, "--passphrase-file", pass)
	good := must[[]byte](t)(os.ReadFile(file))
	for how, bad := range damagesOf(good) {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(w.dir, "restored.d")
		r := verge(t, "", "restore", file, "--data-dir", to, "--passphrase-file", pass)
		judge(t, how, file, refuses, r.err, r.code == 0)
		if list, err := os.ReadDir(to); err == nil && len(list) > 0 {
			t.Errorf("%s: it left %v", how, list)
		}
	}
}

func (w *world) damagedContext(t *testing.T) {
	good := must[[]byte](t)(os.ReadFile(w.root.contextFile()))
	for how, bad := range damagesOf(good) {
		file := w.file("context-", string(bad))
		r := verge(t, file, "get", "clusters")
		judge(t, how, file, refuses, r.err, r.code == 0)
	}
}

func (w *world) damagedSettings(t *testing.T) {
	good := []byte("# what this worker is told\ncpus: 4\nmemory: 2Gi\nlabel: [disk=ssd]\n")
	for how, bad := range damagesOf(good) {
		file := w.file("settings-", string(bad))
		r := verge(t, "", "config", "print", "worker", "--config", file)
		judge(t, how, file, either, r.err, r.code == 0)
	}
}
