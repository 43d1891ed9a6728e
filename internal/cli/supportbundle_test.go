package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unbundle reads a support bundle: names without the directory.
func unbundle(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := io.Copy(&b, io.LimitReader(r, 64<<20)); err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		out[name] = b.String()
	}
}

func TestSupportBundle(t *testing.T) {
	shown := hooked()
	shown.HookList[0].URL += "/t0ken-in-a-path"
	f := newFixture(t, shown)
	out := filepath.Join(t.TempDir(), "b.tar.gz")
	got := f.run("support-bundle", "-o", out, "--with", "/no/such/context.yaml")
	if got.code != 0 || !strings.Contains(got.stdout, out+" written: ") ||
		!strings.Contains(got.stderr, "missing: the context /no/such/context.yaml") {
		t.Errorf("%+v", got)
	}
	files := unbundle(t, out)
	for _, want := range []string{"SUMMARY.txt", "here/doctor.json", "here/version.json"} {
		if files[want] == "" {
			t.Errorf("there is no %s", want)
		}
	}
	for m := range strings.Lines(got.stderr) { // w2 is a worker of which the server knows no entries
		if strings.Contains(m, "entries.json") && !strings.HasPrefix(m,
			"missing: servers/test/workers/edge/w2/entries.json: ") {
			t.Errorf("it says %q", m)
		}
	}
	if entries := files["servers/test/workers/edge/w1/entries.json"]; !strings.Contains(entries, "127.0.0.1:21034") {
		t.Errorf("where services are reached on edge/w1: %q", entries)
	}
	logs, status, hooks := 0, 0, 0
	for name, text := range files {
		if strings.Contains(text, "t0ken-in-a-path") {
			t.Errorf("%s has the whole URL of a hook", name)
		}
		if strings.HasSuffix(name, "/hooks.json") && strings.Contains(text, "https://pager.example") &&
			strings.Contains(text, "503 Service Unavailable") {
			hooks++
		}
		if strings.Contains(name, "/logs/") {
			logs++
		}
		if strings.HasSuffix(name, "/status.json") {
			status++
		}
	}
	if status != 1 || logs == 0 || hooks != 1 {
		t.Errorf("it has %d status, %d logs, %d hooks", status, logs, hooks)
	}
	info, err := os.Stat(out)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if got := f.run("support-bundle", "-o", filepath.Join(out, "x")); got.code != 1 ||
		!strings.Contains(got.stderr, "cannot be written") {
		t.Errorf("%+v", got)
	}
}
