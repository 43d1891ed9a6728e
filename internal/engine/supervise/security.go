package supervise

import (
	"bytes"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// securityOf is what the containers of a service may do.
func securityOf(s *api.Service) runtime.Security {
	sec := s.Security
	return runtime.Security{
		WritableRoot: !sec.ReadOnly(), Capabilities: sec.Capabilities(), Extra: sec.Add,
		NewPrivileges: sec.NewPrivileges, NoSeccomp: sec.Seccomp == api.SeccompNone,
	}
}

// hintBytes of the end of a log are searched for the cause of a failure.
const hintBytes = 4 << 10

// readOnlyHint says what may be wrong with a container whose log says that it could not write:
// programs seldom tell by their exit code.
func (in *Instance) readOnlyHint(exit wire.Exit) string {
	o := &in.rec.Order
	if exit.Code == 0 || exit.Unknown || o.Spec == nil || state.RuntimeOf(o) != api.Container || !o.Spec.Security.ReadOnly() {
		return ""
	}
	end, err := logfile.End(in.layout.Log())
	if err != nil {
		return ""
	}
	last, err := logfile.Read(in.layout.Log(), max(0, end-hintBytes), hintBytes)
	if err != nil || !bytes.Contains(bytes.ToLower(last.Data), []byte("read-only file system")) {
		return ""
	}
	return "; its log says \"read-only file system\": a container cannot write to the files of its image; give it a volume where it writes (volumes: [{path: /var/cache, tmpfs: 64Mi}]), or write security: {root: writable}"
}
