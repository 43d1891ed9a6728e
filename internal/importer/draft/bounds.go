package draft

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Architecture is Go's name of an architecture, "" for one that Verge does not support.
func Architecture(s string) string {
	switch s {
	case "amd64", "x86_64", "x86-64":
		return "amd64"
	case "arm64", "aarch64":
		return "arm64"
	case "arm", "armhf", "armv7", "armv7l", "arm32v7":
		return "arm"
	case "386", "i386", "i686":
		return "386"
	case "riscv64", "ppc64le", "s390x", "mips64le", "mips64", "mips", "mipsle":
		return s
	case "loong64", "loongarch64":
		return "loong64"
	}
	return ""
}

// Clamp brings d into bounds, and notes it.
func Clamp(r *report.Report, d *source.Document, path []string, v, least, most time.Duration) api.Duration {
	if n := min(max(v, least), most); n != v {
		r.At(report.Lost, d, path, "is %s instead of %s: it is from %s to %s in Verge", api.Duration(n),
			api.Duration(v),
			api.Duration(least), api.Duration(most))
		v = n
	}
	return api.Duration(v)
}

// MaxTimes is Verge's maximum of failures in a row and of restarts.
const MaxTimes = 1000

// StopSignals are the signals that Verge can send.
var StopSignals = []string{"TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "WINCH", "KILL"}
