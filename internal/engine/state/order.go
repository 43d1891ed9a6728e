package state

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// SameRun tells whether two orders ask for the same run of an instance; any
// other is a replacement. Another revision of the same program is the same run.
// It does not ask for "greater": a cluster that was restored from an older copy
// is believed as well. In another namespace it is another application of the same
// name, whatever it looks like.
func SameRun(a, b *wire.Order) bool {
	if a.Incarnation != b.Incarnation || wire.OrderNamespace(a) != wire.OrderNamespace(b) {
		return false
	}
	return a.Revision == b.Revision || (a.Spec != nil && b.Spec != nil && a.Spec.SameProgram(b.Spec))
}

// RuntimeOf is the name of the driver that an order needs.
func RuntimeOf(o *wire.Order) string {
	if o.Spec == nil || o.Spec.Runtime == "" {
		return "process"
	}
	return o.Spec.Runtime
}

// Reserved is what an order reserves on the worker.
func Reserved(o *wire.Order) api.Resources {
	if o.Spec == nil {
		return api.Resources{}
	}
	return o.Spec.Resources
}

// Variables that identify an engine's own processes. A service can't set them.
const (
	// EnvEngine names the engine, EnvInstance the instance.
	EnvEngine   = "VERGE_ENGINE"
	EnvInstance = "VERGE_INSTANCE"
	// EnvExec marks commands that run beside an instance; of a session it is the id.
	EnvExec = "VERGE_EXEC"
)

// Sandboxed tells whether an order is for a container or a function, not for a program of
// this machine.
func Sandboxed(o *wire.Order) bool { return RuntimeOf(o) == api.Container || RuntimeOf(o) == api.Wasm }

// PortName is the name of a port, which only the first may leave out.
func PortName(p *api.Port) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Protocol != "":
		return p.Protocol
	}
	return "tcp"
}

// BeginsAwake tells whether the first order of an instance starts it at once, before any
// request.
func BeginsAwake(o *wire.Order) bool { return o.Sleep == nil || o.Sleep.Awake }

// ValidID tells whether s is the id of an instance and so safe as a file name.
func ValidID(s string) bool {
	p := strings.Split(s, ".")
	if len(p) != 3 || !IsLabel(p[0]) || !IsLabel(p[1]) {
		return false
	}
	n, err := strconv.Atoi(p[2])
	return err == nil && n >= 0 && strconv.Itoa(n) == p[2]
}

// IsLabel tells whether s is a DNS label in lower case.
func IsLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// FileSubject is the subject of a problem with a file.
func FileSubject(path string) string {
	return "file " + filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))
}

// LogSubject is the subject of a problem with the log of an instance.
func LogSubject(id wire.InstanceID) string { return "log of " + id }

// MaxWait bounds how long an answer is held.
const MaxWait = 5 * time.Minute
