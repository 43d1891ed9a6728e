package placement

import (
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
)

// Who serves, is to make room, and finds none on another worker is first offered to other
// clusters: the root is told (Instance.Room), runs another one elsewhere where there is
// room, and takes this one away when that answers. The root says which ones it replaces
// (Share.Replacing); where it does not within askBy, or is not done within RoomBy, the
// instance is ended as if nobody had been asked. Meanwhile its room counts as room that
// comes, so nobody else is displaced for the same.

// askBy is how long the root has to say that it replaces an instance.
const askBy = 3 * time.Second

// AskAway has the root asked to run an instance elsewhere, since it is to make room. False
// where that would be of no use.
func AskAway(t *state.Tx, id wire.InstanceID, why string, now time.Time) bool {
	i := *t.Inst(id)
	s := t.Model.FromRoot[i.App+"."+i.Service]
	switch {
	case s == nil || !s.Elsewhere || localedit.Table.Rows(t.Model.DB)[i.App+"."+i.Service] != nil: // it is ours alone
		return false
	case i.Ordinal >= wire.LocalOrdinals || s.Spec.Job != nil || s.Spec.Replicas.Elastic():
		return false
	case i.State != wire.Running || !i.Ready || Pass(t).Tried[id] || t.Model.Alone:
		return false
	}
	fleet.Leaves(t, i.Worker, &i)
	fleet.Refit(t, i.Worker, i.App, i.Service)
	fleet.Rehold(t, i.Worker, t.Model.Workers[i.Worker], fleet.Used(t)[i.Worker])
	i.Room = &wire.RoomAsk{Since: now.Round(0), For: why}
	t.Put(i)
	t.Event(event.InstanceElsewhere, id, "%s; no other worker here has room, so the root is asked for another cluster", why)
	return true
}

// AskedAway looks after those that the root was asked to run elsewhere: who has had his time
// is ended by whoever waits for his room, and who does not serve any more at once.
func AskedAway(t *state.Tx, now time.Time) {
	for _, i := range t.Instances() {
		if i.Room == nil || i.Draining { // it is going
			continue
		}
		s, since := t.Model.FromRoot[i.App+"."+i.Service], max(now.Sub(i.Room.Since), i.Room.Since.Sub(now))
		patience := askBy
		if s != nil && slices.Contains(s.Replacing, i.Ordinal) {
			patience = RoomBy
		}
		serves := i.State == wire.Running && i.Ready
		if serves && since < patience {
			continue
		}
		next := *i
		next.Room = nil
		t.Put(next)
		if Pass(t).Tried[i.ID] = true; serves {
			t.Event(event.InstanceElsewhere, i.ID, "no other cluster runs it within %s", patience)
		}
	}
}
