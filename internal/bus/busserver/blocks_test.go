package busserver_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/bus/busserver"
)

// What was acknowledged is there or the start is refused, whatever becomes of the
// files of the log. Only the torn end of a last write, which nobody was told of,
// is dropped.
func TestADamagedLogIsRefused(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	good := t.TempDir()
	r := startRoot(t, a, good, "127.0.0.1:0")
	const keys = 20
	for n := range keys {
		if _, err := r.Store().Put(t.Context(), fmt.Sprintf("k%d", n), bytes.Repeat([]byte{byte(n)}, 100)); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	files, err := filepath.Glob(filepath.Join(good, "jetstream", "jetstream", "*", "streams", "STORE", "msgs", "*.blk"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the files of the log: %v, %v", files, err)
	}
	block, err := filepath.Rel(good, files[0])
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 4
		return b
	}
	for what, c := range map[string]struct {
		bytes  []byte
		marker string // "" leaves it as it is
		works  bool
		says   string
	}{
		"as it was":                        {whole, "", true, ""},
		"nothing":                          {nil, "", false, "ends with message"},
		"half of it":                       {whole[:len(whole)/2], "", false, "ends with message"},
		"without its last record":          {whole[:len(whole)-150], "", false, "ends with message"},
		"a bit of the first record":        {flipped(40), "", false, "1.blk"},
		"a bit of a length":                {flipped(1), "", false, "1.blk"},
		"a bit in the middle":              {flipped(len(whole) / 2), "", false, "1.blk"},
		"a bit of the last record":         {flipped(len(whole) - 30), "", false, "ends with message"},
		"rubbish":                          {bytes.Repeat([]byte("\xfe}{"), 1000), "", false, ""},
		"rubbish behind it":                {append(bytes.Clone(whole), "torn"...), "", true, ""},
		"zeros behind it":                  {append(bytes.Clone(whole), make([]byte, 4096)...), "", true, ""},
		"a torn write after a crash":       {append(bytes.Clone(whole), whole[len(whole)-150:len(whole)-10]...), "", true, ""},
		"a marker of before it said more":  {whole, "verge store 1\n", true, ""},
		"no marker":                        {whole, "none", true, ""},
		"a marker that is something else":  {whole, "virge store 1\n", false, "remove this file"},
		"a marker whose number is no more": {whole, "verge store 1\nlast x\n", false, "remove this file"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, block), c.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.marker == "none" {
			if err := os.Remove(filepath.Join(dir, "store")); err != nil {
				t.Fatal(err)
			}
		} else if c.marker != "" {
			if err := os.WriteFile(filepath.Join(dir, "store"), []byte(c.marker), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// The second start must not be milder than the first.
		for range 2 {
			r, err := busserver.StartRoot(t.Context(), busserver.RootOptions{Dir: dir, Listen: "127.0.0.1:0", TLS: a.server("x"), Peer: commonName, Log: quiet(t)})
			if err != nil {
				if c.works || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "backup") {
					t.Errorf("%s: %v", what, err)
				}
				continue
			}
			if !c.works {
				t.Errorf("%s: it works", what)
			}
			for n := range keys {
				if e, err := r.Store().Get(t.Context(), fmt.Sprintf("k%d", n)); err != nil || len(e.Value) != 100 || e.Value[0] != byte(n) {
					t.Errorf("%s: k%d is %v, %v", what, n, e, err)
				}
			}
			r.Close()
		}
	}
}
