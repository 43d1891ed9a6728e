package e2e

import (
	"bytes"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDamagedFiles damages each file of a root and of a cluster. Each of them
// either works all the same, or says which file it is and ends; it never panics,
// and never makes itself a new identity.
func TestDamagedFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	w := newRoot(t)
	w.addCluster("edge").answers()
	for _, x := range []*tier{w.cluster["edge"], w.root} {
		x.kill()
		keep := filepath.Join(w.dir, x.name+".kept")
		if err := os.CopyFS(keep, os.DirFS(x.dir)); err != nil {
			t.Fatal(err)
		}
		for _, file := range keptFiles(t, keep) {
			w.run(x.name+" "+file, func(t *testing.T) { damaged(t, x, keep, file) })
		}
		restore(t, x, keep)
		x.start()
		x.answers()
	}
}

// keptFiles are those that a role keeps, but for the log of its store, which has
// tests of its own.
func keptFiles(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "jetstream" {
			return filepath.SkipDir
		}
		if st, err := d.Info(); err != nil || !d.Type().IsRegular() || st.Size() == 0 {
			return err // locks are empty
		}
		name, err := filepath.Rel(dir, path)
		out = append(out, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func restore(t *testing.T, x *tier, keep string) {
	t.Helper()
	if err := os.RemoveAll(x.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(x.dir, os.DirFS(keep)); err != nil {
		t.Fatal(err)
	}
	tighten(t, x.dir)
}

// listens is nil when the tier's HTTP interface takes connections.
func (x *tier) listens() error {
	c, err := net.Dial("tcp", x.api)
	if err == nil {
		err = c.Close()
	}
	return err
}

func damaged(t *testing.T, x *tier, keep, file string) {
	good := must[[]byte](t)(os.ReadFile(filepath.Join(keep, file)))
	for how, bad := range map[string][]byte{
		"cut off": good[:len(good)/2], "zeros": make([]byte, len(good)), "garbage": bytes.Repeat([]byte("\xfe}{"), 50),
	} {
		restore(t, x, keep)
		if err := os.WriteFile(filepath.Join(x.dir, file), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		before := len(x.text())
		x.start()
		works := false
		eventually(t, 30*time.Second, "it works or ends", func() error {
			if !x.running() {
				return nil
			}
			err := x.listens()
			works = err == nil
			return err
		})
		if x.running() {
			x.kill()
		}
		said := x.text()[before:]
		if strings.Contains(said, "goroutine ") || strings.Contains(said, "panic") {
			t.Errorf("%s, %s: it panics:\n%s", file, how, said)
		}
		if !works && !strings.Contains(said, filepath.Base(file)) {
			t.Errorf("%s, %s: it ends and does not name the file:\n%s", file, how, said)
		}
		for _, key := range []string{"key.pem", "cluster-ca-key.pem", "bus.key"} {
			was, err := os.ReadFile(filepath.Join(keep, key))
			if err != nil || key == file {
				continue
			}
			if now, err := os.ReadFile(filepath.Join(x.dir, key)); err != nil || !bytes.Equal(was, now) {
				t.Errorf("%s, %s: it made itself another %s (%v)", file, how, key, err)
			}
		}
		if works && strings.HasSuffix(file, "key.pem") {
			t.Errorf("%s, %s: it works without the key that it had", file, how)
		}
	}
}
