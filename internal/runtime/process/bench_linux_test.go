package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/internal/runtime"
)

// BenchmarkStart is what the start and the end of a task cost, as root and as a user of
// its own with its own view. cpu-µs is the time of this process and of those that it has
// waited for.
func BenchmarkStart(b *testing.B) {
	for _, c := range []struct {
		name string
		user *runtime.User
	}{{"root", nil}, {"user", &runtime.User{UID: 1_900_000_001, GID: 1_900_000_001}}} {
		b.Run(c.name, func(b *testing.B) {
			if os.Geteuid() != 0 && c.user != nil {
				b.Skip("NOT TESTED: users of their own; needs root")
			}
			d := testDriver(b, Options{})
			dir := b.TempDir()
			s := runtime.Spec{
				ID: "app.web.0", Command: []string{"/bin/true"}, Env: []string{"PATH=/usr/bin:/bin"}, CPUWeight: 100,
				Dir: filepath.Join(dir, "work"), LogDir: filepath.Join(dir, "log"), User: c.user,
				View: runtime.View{Hide: []string{dir}, Show: []string{filepath.Join(dir, "work")}, Tmp: filepath.Join(dir, "tmp"), Programs: filepath.SplitList(os.Getenv("PATH"))},
			}
			for _, sub := range []string{s.Dir, s.LogDir, s.View.Tmp} {
				if err := os.Mkdir(sub, 0o755); err != nil {
					b.Fatal(err)
				}
			}
			before := cpuTime(b)
			for b.Loop() {
				task, err := d.Start(b.Context(), s)
				if err != nil {
					b.Fatal(err)
				}
				if exit, err := task.Wait(b.Context()); err != nil || exit.Code != 0 {
					b.Fatalf("%+v, %v", exit, err)
				}
				if err := task.Cleanup(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
