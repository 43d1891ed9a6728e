package engine

import (
	"path/filepath"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/runtime/process"
	"github.com/verge-edge/verge/internal/wire"
)

// isolating is a driver that can run what it starts as users of their own.
type isolating interface {
	// CannotIsolate says why it can not, "" if it can.
	CannotIsolate() string
}

// openUsers finds out whether instances can have users of their own here, and says so; nil
// if they cannot.
func (e *Engine) openUsers() (pool *users.Pool) {
	why := "its runtime cannot run an instance as another user"
	if d, ok := e.opts.Drivers[process.Name].(isolating); ok {
		why = d.CannotIsolate()
	}
	if why == "" {
		pool = users.New(users.ClaimsDir, filepath.Join(e.opts.Dir, state.InstancesDir))
	}
	e.board.SetInfo(func(i *wire.EngineInfo) {
		i.Isolation = &wire.Isolation{Users: why == "", Why: why, HostUsers: e.opts.Config.HostUsers}
	})
	return pool
}
