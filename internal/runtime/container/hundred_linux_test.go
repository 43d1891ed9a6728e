package container

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// BenchmarkHundred starts a hundred containers, four at a time: how long that takes, what
// containerd, shims, runc and this driver use of the processor for each, what they use in
// a minute in which nothing happens, and the memory of the shims for each container.
func BenchmarkHundred(b *testing.B) {
	const many, abreast, quiet = 100, 4, time.Minute
	d, c := bench(b, containertest.Config{})
	own := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for b.Loop() {
		before, mine, began := spent(b, c), own(), time.Now()
		tasks := make([]runtime.Task, many)
		next := make(chan int)
		var wg sync.WaitGroup
		for range abreast {
			wg.Go(func() {
				for i := range next {
					s := specOf(b, testImage, "sleep", "100000")
					s.ID = fmt.Sprintf("app.web.%d", i)
					task, err := d.Start(b.Context(), s)
					if err != nil {
						b.Error(err)
						continue
					}
					tasks[i] = task
				}
			})
		}
		for i := range many {
			next <- i
		}
		close(next)
		wg.Wait()
		b.ReportMetric(time.Since(began).Seconds(), "s-to-100")
		b.ReportMetric((spent(b, c)-before).Seconds()*1000/many, "cpu-ms/container")
		b.ReportMetric((own()-mine).Seconds()*1000/many, "driver-cpu-ms/container")
		shims, err := c.Shims()
		if err != nil {
			b.Fatal(err)
		}
		sum := 0.0
		for _, pid := range shims {
			sum += pss(b, pid)
		}
		b.ReportMetric(sum/many, "MB-PSS/container")
		before = spent(b, c)
		<-time.After(quiet)
		b.ReportMetric((spent(b, c)-before).Seconds()*1000, "idle-cpu-ms/minute")
		for _, task := range tasks {
			if task != nil {
				end(b, task)
			}
		}
	}
}
