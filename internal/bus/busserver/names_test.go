package busserver_test

import (
	"strings"
	"testing"
)

func TestNodeNames(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	edge := startCluster(t, a, "edge", t.TempDir(), nil)
	r := startRoot(t, a, t.TempDir(), "127.0.0.1:0")
	key := newKey(t).Public()
	for _, bad := range []string{"", "*", ">", "a.b", "a b", "A", "-a", "a-", "$own", strings.Repeat("a", 64), "a\n"} {
		if _, err := edge.AddWorker(bad, key); err == nil {
			t.Errorf("worker %q was added", bad)
		}
		if _, err := r.AddCluster(bad, key); err == nil {
			t.Errorf("cluster %q was added", bad)
		}
	}
	for _, bad := range []string{"", "U", "rubbish", strings.Replace(key, "U", "A", 1)} {
		if _, err := edge.AddWorker("w", bad); err == nil {
			t.Errorf("key %q was accepted", bad)
		}
	}
}
