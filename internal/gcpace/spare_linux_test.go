package gcpace

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestAvailable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"MemTotal:  100 kB\nMemFree: 10 kB\nMemAvailable:      40 kB\nBuffers: 1 kB\n": 40 << 10,
		"MemTotal:  100 kB\n": 0, "": 0,
	} {
		if got := available([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if spare() == 0 {
		t.Error("this machine has nothing to spare")
	}
}

func TestUnlimited(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(group, name, text string) {
		dir := filepath.Join(root, group)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a/b", "memory.max", "max")
	write("a/b", "memory.current", "500")
	write("a", "memory.max", "1000")
	write("a", "memory.current", "700")
	write("full", "memory.max", "1000")
	write("full", "memory.current", "1100")
	write("memory/a", "memory.limit_in_bytes", "900")
	write("memory/a", "memory.usage_in_bytes", "100")
	write("memory", "memory.limit_in_bytes", "9223372036854771712")
	write("memory", "memory.usage_in_bytes", "100")
	const none = math.MaxUint64
	for group, want := range map[string]uint64{
		"0::/a/b\n": 300, "0::/a": 300, "0::/full": 0, "0::/": none, "0::/other": none, "0::/../full": 0,
		"5:cpu:/full\n4:hugetlb,memory:/a\n0::/\n": 800, "4:memory:/a\n0::/a\n": 300, "": none,
	} {
		if got := unlimited(root, []byte(group)); got != want {
			t.Errorf("%q: %d, want %d", group, got, want)
		}
	}
	write(".", "memory.max", "50") // as in a container
	write(".", "memory.current", "10")
	for _, group := range []string{"0::/\n", "0::/of/the/host\n"} {
		if got := unlimited(root, []byte(group)); got != 40 {
			t.Errorf("%q in a container: %d, want 40", group, got)
		}
	}
}
