package engine

import (
	"errors"
	"path/filepath"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/runtime/process"
	"github.com/verge-edge/verge/internal/wire"
)

// isolating is a driver that can run what it starts as users of their own.
type isolating interface {
	// ProbeIsolation says why it can not (err), or what it does not keep from them ("" if
	// nothing).
	ProbeIsolation() (missing string, err error)
}

// openUsers finds out whether instances can have users of their own here, and says so; nil
// if they cannot.
func (e *Engine) openUsers() (pool *users.Pool) {
	missing, err := "", errors.New("its runtime cannot run an instance as another user")
	if d, ok := e.opts.Drivers[process.Name].(isolating); ok {
		missing, err = d.ProbeIsolation()
	}
	isolation := &wire.Isolation{Users: err == nil, Missing: missing, HostUsers: e.opts.Config.HostUsers}
	if err == nil {
		pool = users.New(users.ClaimsDir, filepath.Join(e.opts.Dir, state.InstancesDir))
	} else {
		isolation.Why = err.Error()
	}
	e.board.SetInfo(func(i *wire.EngineInfo) { i.Isolation = isolation })
	return pool
}
