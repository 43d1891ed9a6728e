package busserver_test

import (
	"runtime"
	"testing"
)

// Not parallel: it counts the goroutines of the process.
func TestCloseLeavesNothingRunning(t *testing.T) {
	a := newCA(t)
	before := runtime.NumGoroutine()
	r := startRoot(t, a, t.TempDir(), "127.0.0.1:0")
	c := startCluster(t, a, "edge", t.TempDir(), upstream(t, a, r, "edge"))
	waitUp(t, c.Up(), true)
	w, _, _ := joinWorker(t, a, c, "w1")
	answer(t, w, "o.w1.ask", "w1")
	if _, err := r.Cluster("edge"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	c.Close()
	c.Close()
	r.Close()
	eventually(t, "end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}
