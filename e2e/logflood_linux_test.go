package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// What TestLogFlood has its instances write, at 10,000 lines a second: the first fits
// into what is kept of a log, the second does not.
const (
	floodLines = 30_000
	evenSize   = 300
	loudSize   = 1000
	// keptOfLog is what is kept of a log: four segments and the live part.
	keptOfLog = 5 * (4 << 20)
)

// TestLogFlood has instances that write 10,000 lines a second, as a process and as a
// container. Who follows has every line, once and in order, of as much as is kept; of
// what is more the end is kept and the disk is bounded; the engine holds none of it.
func TestLogFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	ctd := containertest.Need(t)
	w := newRoot(t)
	w.addCluster("edge")
	w.cluster["edge"].answers()
	x := w.addWorker("edge", "edge-1", "--containerd", ctd.Address)
	w.allReady()
	program := filepath.Join(programs.dir, "testprogram")
	image, err := containertest.Build(containertest.Config{Entrypoint: []string{program}}, program)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "flood.tar")
	if err := containertest.Save(archive, "flood:1", image); err != nil {
		t.Fatal(err)
	}
	if r := verge(t, w.root.contextFile(), "image", "load", archive, "--containerd", ctd.Address); r.code != 0 {
		t.Fatalf("load: %+v", r)
	}
	engine := enginePID(t, x)
	before := engineMemory(t, engine, "VmRSS")
	services := ""
	for _, size := range []int{evenSize, loudSize} {
		args := fmt.Sprintf(`"flood", "%d", "%d", "10000"`, floodLines, size)
		services += fmt.Sprintf("  p%d: {command: [testprogram, %s]}\n", size, args)
		services += fmt.Sprintf("  c%d: {runtime: container, image: \"flood:1\", pull: never, command: [%q, %s]}\n", size, program, args)
	}
	w.root.apply("application: flood\nservices:\n" + services)
	w.root.holds("flood", 60*time.Second)
	for _, how := range []string{"p", "c"} {
		even, loud := fmt.Sprintf("flood.%s%d.0", how, evenSize), fmt.Sprintf("flood.%s%d.0", how, loudSize)
		follows := w.root.goesOn("logs", even, "-f")
		eventually(t, time.Minute, even+" is followed to its end", func() error {
			if !strings.HasSuffix(follows.out.String(), floodLine(floodLines-1, evenSize)) {
				return fmt.Errorf("%d bytes, %s", len(follows.out.String()), follows.err.String())
			}
			return nil
		})
		follows.interrupt(t)
		if first := floodOf(t, even, follows.out.String(), evenSize); first != 0 {
			t.Errorf("%s: the first line that was followed is %d", even, first)
		}
		dir := filepath.Join(x.dir, "instances", loud, "log")
		eventually(t, time.Minute, "the disk is bounded for "+loud, func() error {
			if n := onDisk(t, dir); n > keptOfLog+64<<10 {
				return fmt.Errorf("%d bytes, and %d are to be kept", n, keptOfLog)
			}
			if out := w.root.ok("logs", loud, "--tail", "1"); out != floodLine(floodLines-1, loudSize) {
				return fmt.Errorf("its end is %.30q", out)
			}
			return nil
		})
		if first := floodOf(t, loud, w.root.ok("logs", loud), loudSize); (floodLines-first)*loudSize < keptOfLog/2 || first == 0 {
			t.Errorf("%s: it has the lines from %d on", loud, first)
		}
	}
	// Half of it is usual: a garbage collector with parts of 512 KiB to pass on. What was
	// written is 78 MB.
	if more := engineMemory(t, engine, "VmHWM") - before; more > 64<<10 {
		t.Errorf("the engine took up to %d KB more than before", more)
	} else {
		t.Logf("the engine took up to %d KB more than the %d before", more, before)
	}
	wantEqual(t, "the engine", enginePID(t, x), engine)
}

// floodLine is a line as testprogram writes it.
func floodLine(n, size int) string {
	head := fmt.Sprintf("line %08d ", n)
	return head + strings.Repeat("x", size-len(head)-1) + "\n"
}

// floodOf checks that a log has all lines from one on, once and in order, and returns
// which that is.
func floodOf(t *testing.T, id, log string, size int) (first int) {
	t.Helper()
	first, next := -1, 0
	for line := range strings.Lines(log) {
		if first < 0 {
			if _, err := fmt.Sscanf(line, "line %d ", &first); err != nil {
				t.Fatalf("%s begins with %.30q", id, line)
			}
			next = first
		}
		if line != floodLine(next, size) {
			t.Fatalf("%s: line %d is followed by %.30q of %d bytes", id, next-1, line, len(line))
		}
		next++
	}
	if next != floodLines {
		t.Fatalf("%s: the last line is %d", id, next-1)
	}
	return first
}

// onDisk is what the files of a folder take, without their holes.
func onDisk(t *testing.T, dir string) (n int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			continue // it was removed meanwhile
		}
		n += info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	return n
}

// engineMemory is a figure of a process's memory in KB.
func engineMemory(t *testing.T, pid int, name string) int {
	t.Helper()
	text := string(must[[]byte](t)(os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))))
	_, rest, _ := strings.Cut(text, name+":")
	var kb int
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatalf("%s of process %d: %v", name, pid, err)
	}
	return kb
}
