package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// secretNames are files that nobody else may read.
var secretNames = regexp.MustCompile(`(?i)(key|token|seed|secret|context|\.nk$|\.creds$)`)

// secretText is what must be in no log and in no command line.
var secretText = []*regexp.Regexp{
	regexp.MustCompile(`\bS[UAOCNX][A-Z2-7]{50,}`), // a seed of the bus
	regexp.MustCompile(`PRIVATE KEY`),
	regexp.MustCompile(`verge-join-1\.[A-Za-z0-9_-]{20,}`),
}

// secretsAreKept looks at everything that the daemons have written so far.
func (w *world) secretsAreKept(t *testing.T) {
	var bearer string
	r := verge(t, w.root.contextFile(), "token", "create", "--api")
	if bearer = strings.TrimSpace(r.out); r.code != 0 || len(bearer) < 16 {
		t.Fatalf("no token was made: %s", r.err)
	}
	keys, logs := 0, 0
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // instances come and go
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		ours := strings.Contains(path, ".d/") && !strings.Contains(path, "/instances/")
		switch {
		case d.IsDir() && strings.HasSuffix(path, ".d") && info.Mode().Perm()&0o077 != 0:
			t.Errorf("data directory %s has mode %v", path, info.Mode().Perm())
		case !d.Type().IsRegular() || !ours && !strings.HasSuffix(path, ".log"):
		case strings.HasSuffix(path, ".log"):
			logs++
			text := must[[]byte](t)(os.ReadFile(path))
			noSecret(t, path, string(text), bearer)
		default:
			text := must[[]byte](t)(os.ReadFile(path))
			secret := secretNames.MatchString(d.Name())
			for _, s := range secretText {
				secret = secret || s.Match(text)
			}
			if secret {
				keys++
			}
			if secret && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode().Perm())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if keys < 8 || logs < 5 {
		t.Errorf("%d secret files and %d logs were found: the test does not see what it should", keys, logs)
	}
	for _, p := range processesOf(w.dir) {
		noSecret(t, "the command line of "+p.args[0], strings.Join(p.args, " "), bearer)
	}
}

func noSecret(t *testing.T, where, text, bearer string) {
	t.Helper()
	if strings.Contains(text, bearer) {
		t.Errorf("%s has a bearer token", where)
	}
	for _, s := range secretText {
		if at := s.FindStringIndex(text); at != nil {
			t.Errorf("%s has a secret at byte %d (%s)", where, at[0], s)
		}
	}
}
