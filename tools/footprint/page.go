package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/verge-edge/verge/tools/bench"
)

// machine describes where was measured, with stages in dir.
func machine(dir string) string {
	model, memory := "unknown processor", ""
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	if kib, err := bench.Field("/proc/meminfo", "MemTotal:"); err == nil {
		memory = fmt.Sprintf(", %.0f GiB of memory", float64(kib)/(1<<20))
	}
	kernel := "unknown kernel"
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = "Linux " + strings.TrimSpace(string(b))
	}
	disk := ""
	if out, err := exec.Command("df", "--output=fstype", dir).Output(); err == nil {
		if f := strings.Fields(string(out)); len(f) > 0 {
			disk = ", state on " + f[len(f)-1]
		}
	}
	return fmt.Sprintf("%d × %s%s, %s, %s%s", runtime.NumCPU(), model, memory, kernel, runtime.GOARCH, disk)
}

// loadAverage of the last minute, "" where it is not known.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// section is what was measured of one part, with what could not be.
func (b *measurer) section(machine, load string) string {
	var p strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&p, format+"\n", args...) }
	if len(b.All) > 0 {
		line("| What | Value | Unit | To reach | Reached |")
		line("|---|--:|---|--:|---|")
	}
	for _, r := range b.All {
		most, ok := "", ""
		if r.Reach != nil {
			most, ok = "≤ "+bench.Number(*r.Reach), map[bool]string{true: "yes", false: "**no**"}[*r.OK]
		}
		line("| %s | %s | %s | %s | %s |", r.What, bench.Number(r.Value), r.Unit, most, ok)
	}
	line("\nMeasured on %s by `make footprint` on: %s. Load average of the machine before that: %s.",
		time.Now().UTC().Format("2 January 2006"), machine, load)
	for _, n := range b.notes {
		line("\n%s", n)
	}
	return p.String()
}

// mark begins the section of a part on the page.
func mark(part string) string { return "<!-- " + part + " -->\n" }

// kept is the section of a part as a page has it, "" where it has none.
func kept(page, part string) string {
	_, rest, _ := strings.Cut(page, mark(part))
	text, _, _ := strings.Cut(rest, "<!-- ")
	return strings.Trim(text, "\n") + "\n"
}

// write writes the page: what was measured, and what it had of the other part.
func (b *measurer) write() error {
	old, err := os.ReadFile(b.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, part := range []string{partRoles, partContainers} {
		if b.sections[part] == "" {
			b.sections[part] = kept(string(old), part)
		}
	}
	return os.WriteFile(b.out, []byte(b.page()), 0o644)
}

func (b *measurer) page() string {
	var p strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&p, format+"\n", args...) }
	line("<!-- Written by `make footprint`. -->")
	line("# What Verge costs\n")
	line("Memory, processor time, disk writes and network traffic of a root, a cluster and a worker on one machine, " +
		"each a process of its own. A worker is its agent and its engine together.\n")
	line("%s%s", mark(partRoles), b.sections[partRoles])
	line("%s", "<!-- -->\n## Containers\n")
	line("The same with a worker whose instances are containers. `make footprint PART=containers` measures only " +
		"this, in about three minutes. It needs root, containerd, runc and busybox.\n")
	line("%s%s", mark(partContainers), b.sections[partContainers])
	line("%s", "<!-- -->\n## Method\n")
	line("- *Idle*: nothing is deployed. Measured from %s after the start, for %s.", b.settle, b.span)
	line("- *Worker in the service network*: a second worker, the only one in the network, measured after everything " +
		"else. As root, everything runs in its own network namespace.")
	line("- *Memory*: `Pss` and `Private_Dirty` of `/proc/PID/smaps_rollup` at the end of that time. The four " +
		"processes run one program. PSS divides the pages that they share among them, so a process that is alone on a " +
		"machine has more of it. Private dirty memory is never shared. Half a minute after its start a process gives " +
		"back its garbage and unmaps its program; what it uses of that is mapped again.")
	line("- *Processor time*: of idle processes, the time that the scheduler gave to their threads " +
		"(`/proc/PID/task/*/schedstat`). Of deployments, user and system time of `/proc/PID/stat`, in steps of 10 ms, " +
		"since threads end meanwhile.")
	line("- *Disk*: `write_bytes` of `/proc/PID/io`, which counts pages.")
	line("- *Packets*: `segs_in` and `segs_out` of the worker's TCP connections (`ss -ti`): all segments, including "+
		"acknowledgements. Bytes are those of TLS and above, plus %d bytes of headers per packet.", headers)
	line("- *Apply to Running*: from sending the descriptor until the root reports to a client that the instances " +
		"run. The program is `sleep`. The first deployment is not counted, and each is deleted before the next. " +
		"A container's image is already on the machine.")
	line("- *Binary*: `verge`. The lab and its experiments are a program of their own, `verge-lab`, since 26 November " +
		"2026.")
	line("- *Memory per instance*: the worker's PSS 15 s after the last instance has started, minus its PSS before.")
	line("- *Memory per further container*: the PSS of agent, engine, containerd and all shims with all containers, " +
		"minus the same with one, divided by the number of further containers.")
	line("- *Processor time per container*: of root, cluster, agent, engine, containerd, shims and runc, and of the " +
		"container's own process, which is runc's until it becomes the program. Containerd's state of running " +
		"containers is in memory, as in /run of most systems.")
	line("- *Agent killed*: by SIGKILL, and started again at once. The time ends when a client that asks every 5 ms " +
		"sees that the cluster has heard of the agent. Requests go to a container through the worker's gateway, one " +
		"after the other, 5 ms apart, from before the kill until 50 of them after it.")
	line("- *Under load* a worker's router uses more memory. While it allocates more than 8 MB a second, its garbage " +
		"is collected at 32 MB above the live heap, unless the environment sets GOGC. The router of " +
		"`make bench-proxy` with HTTP/2 had at most 8 MB of private dirty memory without that rule and 37 MB with " +
		"it. About 5 s after the load ends, the garbage is collected and the memory returned.")
	return p.String()
}
