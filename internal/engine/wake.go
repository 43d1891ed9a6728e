package engine

import (
	"github.com/verge-edge/verge/internal/wire"
)

// Wake implements proxy.Local: it starts an instance that sleeps, if there is room.
func (e *Engine) Wake(id wire.InstanceID) {
	e.mu.Lock()
	in := e.instances[id]
	e.mu.Unlock()
	if in != nil && in.SetAwake(true) {
		e.replan()
	}
}
