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

// BenchmarkAtOnce starts a hundred containers that are all asked for at once, as the
// engine does, in turns with what makes them dearer or cheaper: how long that takes, and
// what containerd, shims, runc and this driver use of the processor for each.
func BenchmarkAtOnce(b *testing.B) {
	const many = 100
	d, c := bench(b, containertest.Config{})
	ways := []struct {
		name string
		set  func(*runtime.Spec)
	}{
		{"usual", func(*runtime.Spec) {}},
		{"without-seccomp", func(s *runtime.Spec) { s.Container.Security.NoSeccomp = true }},
		{"writable", func(s *runtime.Spec) { s.Container.Security.WritableRoot = true }},
	}
	took, used := make([]time.Duration, len(ways)), make([]time.Duration, len(ways))
	turns := 0
	for b.Loop() {
		turns++
		for i, way := range ways {
			before, began := spent(b, c), time.Now()
			tasks := make([]runtime.Task, many)
			var wg sync.WaitGroup
			for n := range many {
				wg.Go(func() {
					s := specOf(b, testImage, "sleep", "100000")
					s.ID = fmt.Sprintf("app.web.%d", n)
					way.set(&s)
					if err := d.Fetch(b.Context(), s, func(string) {}); err != nil {
						b.Error(err)
					}
					task, err := d.Start(b.Context(), s)
					if err != nil {
						b.Error(err)
						return
					}
					tasks[n] = task
				})
			}
			wg.Wait()
			took[i] += time.Since(began)
			used[i] += spent(b, c) - before
			for _, task := range tasks {
				if task != nil {
					end(b, task)
				}
			}
		}
	}
	for i, way := range ways {
		b.ReportMetric(took[i].Seconds()/float64(turns), "s-to-100/"+way.name)
		b.ReportMetric(used[i].Seconds()*1000/float64(many*turns), "cpu-ms/"+way.name)
	}
}

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
