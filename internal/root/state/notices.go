package state

import (
	"time"

	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/wire"
)

// Note notes something about an instance.
func (t *Tx) Note(kind event.Kind, i *wire.Instance, now time.Time, what string) {
	n := t.Model.Notice(kind, i, now, what)
	if n.Free = kind != event.InstanceEnded; !n.Free {
		n.Position, n.Last = hooks.Ended, true
	}
	n.Fresh = true
	t.Notices = append(t.Notices, n)
}

// Notice is a notice about an instance, without its position.
func (m *Model) Notice(kind event.Kind, i *wire.Instance, at time.Time, what string) hooks.Notice {
	n := hooks.Notice{Kind: kind, At: at, Data: m.InstanceData(i)}
	n.Data.What = what
	return n
}

// InstanceData is what every message about an instance says.
func (m *Model) InstanceData(i *wire.Instance) wire.HookData {
	return wire.HookData{
		Subject: "instance/" + i.ID, Namespace: m.Namespace(i.App), Application: i.App, Service: i.Service,
		Instance: i.ID,
		Cluster:  i.Cluster, Revision: i.Revision,
	}
}
