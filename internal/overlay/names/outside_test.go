package names

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestOutsideLeavesOutLoopback(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stub := file("stub", "nameserver 127.0.0.53\n")
	both := file("both", "nameserver ::1\nnameserver 192.0.2.1\n")
	behind := file("behind", "nameserver 2001:db8::1\n")
	for _, c := range []struct {
		files, want []string
	}{
		{[]string{both, behind}, []string{"192.0.2.1:53"}},
		{[]string{stub, behind}, []string{"[2001:db8::1]:53"}},
		{[]string{stub, filepath.Join(dir, "none")}, nil},
	} {
		if got := outside(c.files...); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.files, got, c.want)
		}
	}
}
