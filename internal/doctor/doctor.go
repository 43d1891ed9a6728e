package doctor

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Status of a finding.
type Status string

// The statuses, best first.
const (
	OK   Status = "ok"
	Note Status = "note" // works; something is not there that is not needed
	Warn Status = "warn" // works, but not as it could or not for long
	Fail Status = "fail" // does not work
)

// Finding is what was found out about one thing.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	// Remedy is what to do next, and Page where to read on; "" where all is well.
	Remedy string `json:"remedy,omitempty"`
	Page   string `json:"page,omitempty"`
}

func ok(check, format string, args ...any) Finding {
	return Finding{Check: check, Status: OK, Detail: fmt.Sprintf(format, args...)}
}

func bad(s Status, check, page, remedy, format string, args ...any) Finding {
	return Finding{Check: check, Status: s, Detail: fmt.Sprintf(format, args...), Remedy: remedy, Page: page}
}

// Pages of the documentation.
const (
	pageNeeds  = "docs/install.md#what-a-worker-needs"
	pageFiles  = "docs/configuration.md#folders"
	pagePorts  = "docs/configuration.md#ports"
	pageCerts  = "docs/certificates.md#certificates"
	pageClocks = "docs/certificates.md#clocks"
	pageRun    = "docs/configuration.md#processes-and-flags"
	pageTokens = "docs/certificates.md#tokens"
	pageHealth = "docs/metrics.md#health"
)

// oldest is a time before which no machine has run this program: a clock that
// shows less was never set.
var oldest = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// Machine looks at what every role needs.
func Machine(now time.Time) []Finding {
	out := []Finding{system(), clock(now), rights()}
	return append(out, kernel()...)
}

func system() Finding {
	name := runtime.GOOS + "/" + runtime.GOARCH
	if runtime.GOOS != "linux" {
		return bad(Warn, "system", pageNeeds, "run workers on Linux",
			"%s: root, cluster and client work, workers do not", name)
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		name += ", kernel " + strings.TrimSpace(string(release))
	}
	return ok("system", "%s, %d processors", name, runtime.NumCPU())
}

func clock(now time.Time) Finding {
	if now.Before(oldest) {
		return bad(Warn, "clock", pageClocks,
			"set the clock (NTP); until then the last time that Verge has seen counts",
			"it shows %s", now.UTC().Format(time.RFC3339))
	}
	return ok("clock", "%s", now.UTC().Format(time.RFC3339))
}

// Skew compares this machine's clock with that of a server, which answered
// within took.
func Skew(server string, theirs, ours time.Time, took time.Duration) Finding {
	const most = 5 * time.Second
	if d := theirs.Sub(ours); max(d, -d) > most+took {
		return Drift(server, "this machine", d.Seconds())
	}
	return ok("clock of "+server, "within %s of this machine's", (most + took).Round(time.Second))
}

// Drift is that the clock of node is seconds ahead of (negative: behind) another's.
func Drift(node, than string, seconds float64) Finding {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	word := "ahead of"
	if d < 0 {
		word = "behind"
	}
	return bad(Warn, "clock of "+node, pageClocks,
		"set both clocks (NTP): times in events and logs do not fit together, and certificates may seem not "+
			"to be valid",
		"%s %s that of %s", max(d, -d), word, than)
}

func rights() Finding {
	if os.Geteuid() == 0 {
		return ok("rights", "root: a worker may use control groups and mounts")
	}
	return bad(Note, "rights", pageNeeds,
		"for limits: let systemd delegate control groups (Delegate=yes), or run the worker as root",
		"user %d: instances run as this user; limits only where control groups were delegated", os.Geteuid())
}

// Worst is the worst status of all.
func Worst(all []Finding) Status {
	worst := OK
	rank := map[Status]int{OK: 0, Note: 1, Warn: 2, Fail: 3}
	for _, f := range all {
		if rank[f.Status] > rank[worst] {
			worst = f.Status
		}
	}
	return worst
}
