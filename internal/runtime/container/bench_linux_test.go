package container

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/api/types/runc/options"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
)

// times of steps, by name in the order of their first appearance.
type times struct {
	names []string
	took  map[string][]time.Duration
	last  time.Time
}

func (x *times) begin() { x.last = time.Now() }

func (x *times) step(name string) {
	now := time.Now()
	x.add(name, now.Sub(x.last))
	x.last = now
}

func (x *times) add(name string, d time.Duration) {
	if x.took == nil {
		x.took = map[string][]time.Duration{}
	}
	if x.took[name] == nil {
		x.names = append(x.names, name)
	}
	x.took[name] = append(x.took[name], d)
}

// median of a step in milliseconds.
func (x *times) median(name string) float64 {
	all := slices.Sorted(slices.Values(x.took[name]))
	return all[len(all)/2].Seconds() * 1000
}

// BenchmarkStart is from asked to running, with the end and the removal outside of
// the time. In the same run, turn by turn, it does with containerd's client and
// nothing else what has to be done for a container that writes into a file: the
// ratio of the medians is what the driver costs. Processor time is that of containerd,
// the shim, runc and this process together, on average.
func BenchmarkStart(b *testing.B) {
	d, c := bench(b, containertest.Config{})
	client, err := containerd.New(c.Address)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	ctx := namespaces.WithNamespace(b.Context(), ctrd.Namespace)
	name, err := imagestore.FullName(testImage)
	if err != nil {
		b.Fatal(err)
	}
	image, err := client.GetImage(ctx, name)
	if err != nil {
		b.Fatal(err)
	}
	var plain, ours times
	turn, cpu := 0, time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		turn++
		startPlain(ctx, b, client, image, fmt.Sprintf("plain-%d", turn), &plain)
		before := spent(b, c)
		b.StartTimer()

		begin := time.Now()
		ours.begin()
		d.step = ours.step
		spec := specOf(b, testImage, "sleep", "1000")
		if err := d.Fetch(ctx, spec, func(string) {}); err != nil { // as the engine does before each start
			b.Fatal(err)
		}
		ours.step("fetch")
		task, err := d.Start(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		ours.add("all", time.Since(begin))

		b.StopTimer()
		cpu += spent(b, c) - before
		end(b, task)
		b.StartTimer()
	}
	b.ReportMetric(cpu.Seconds()*1000/float64(turn), "driver:cpu-ms")
	for who, x := range map[string]*times{"plain": &plain, "driver": &ours} {
		for _, n := range x.names {
			b.ReportMetric(x.median(n), who+":"+n+"-ms")
		}
	}
	b.ReportMetric(ours.median("all")/plain.median("all"), "driver/plain")
}

// spent is the processor time of all who take part in a start.
func spent(b *testing.B, c *containertest.Containerd) time.Duration {
	b.Helper()
	sum, err := c.CPU()
	if err != nil {
		b.Fatal(err)
	}
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	return sum + time.Duration(own.Utime.Nano()+own.Stime.Nano())
}

func startPlain(ctx context.Context, b *testing.B, client *containerd.Client, image containerd.Image, id string, x *times) {
	begin := time.Now()
	x.begin()
	made, err := client.NewContainer(ctx, id,
		containerd.WithRuntime(shimName, &options.Options{}), containerd.WithImage(image), containerd.WithNewSnapshot(id, image),
		containerd.WithNewSpec(oci.WithImageConfigArgs(image, []string{"sleep", "1000"}), func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
			s.Process.OOMScoreAdj = oomScore()
			return nil
		}))
	if err != nil {
		b.Fatal(err)
	}
	x.step("container")
	task, err := made.NewTask(ctx, cio.LogFile(b.TempDir()+"/log"))
	if err != nil {
		b.Fatal(err)
	}
	x.step("task")
	if err := task.Start(ctx); err != nil {
		b.Fatal(err)
	}
	x.step("start")
	x.add("all", time.Since(begin))
	if _, err := task.Delete(ctx, containerd.WithProcessKill); err != nil {
		b.Fatal(err)
	}
	if err := made.Delete(ctx, containerd.WithSnapshotCleanup); err != nil {
		b.Fatal(err)
	}
}

func end(b testing.TB, task runtime.Task) {
	b.Helper()
	if err := task.Kill(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := task.Cleanup(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkShims is the memory that a container needs beside its own: of the shims,
// with one container and with twice as many as one shim has, and what each further one
// adds.
func BenchmarkShims(b *testing.B) {
	d, c := bench(b, containertest.Config{})
	for b.Loop() {
		var tasks []runtime.Task
		sum := 0.0
		const most = 2 * shareMost
		for n := range most {
			task, err := d.Start(b.Context(), specOf(b, testImage, "sleep", "1000"))
			if err != nil {
				b.Fatal(err)
			}
			tasks = append(tasks, task)
			if n == 0 || n == most-1 {
				shims, err := c.Shims()
				if err != nil || len(shims) != 1+n/shareMost {
					b.Fatal(shims, err)
				}
				before := sum
				sum = 0
				for _, pid := range shims {
					sum += pss(b, pid)
				}
				b.ReportMetric(sum, fmt.Sprintf("MB-PSS/shims-of-%d", n+1))
				if n > 0 {
					b.ReportMetric((sum-before)/float64(n), "MB-PSS/further-container")
				}
			}
		}
		for _, task := range tasks {
			end(b, task)
		}
	}
}

// pss of a process in megabytes.
func pss(t testing.TB, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, "Pss: %f kB", &kb); n == 1 {
			return kb / 1000
		}
	}
	return 0
}
