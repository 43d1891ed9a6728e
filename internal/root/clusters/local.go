package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/localedit"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// takeLocal takes over a change of what a cluster reports, if it is one of these;
// ok says whether it is.
func takeLocal(c *core.Core, cl *state.Cluster, ch wire.Change, now time.Time) (ok bool, err error) {
	if key, found := strings.CutPrefix(ch.Key, wire.ReportedLocal); found {
		return true, takeLocalChange(c, cl, key, ch, now)
	}
	key, found := strings.CutPrefix(ch.Key, wire.ReportedConflict)
	if !found {
		return false, nil
	}
	old := cl.Conflicts[key]
	if ch.Deleted {
		delete(cl.Conflicts, key)
		return true, nil
	}
	var x wire.Conflict
	if err := json.Unmarshal(ch.Value, &x); err != nil {
		return true, err
	}
	if x.ID != key || len(key) > 30 {
		return true, fmt.Errorf("it is about conflict %q", state.Cut(x.ID, state.MaxName))
	}
	if old == nil && len(cl.Conflicts) >= localedit.MaxChanges {
		return true, fmt.Errorf("%d conflicts of it are kept already", localedit.MaxChanges)
	}
	localedit.CheckLocal(&x.LocalChange, cl.Name)
	x.Root, x.Spec = state.Cut(x.Root, state.MaxWords), nil
	if cl.Conflicts == nil {
		cl.Conflicts = map[string]*wire.Conflict{}
	}
	cl.Conflicts[key] = &x
	if old == nil {
		core.Say(c, now, cl, event.LocalOverruled.On(x.App, "conflict %s %s gave way to the root: %s", key,
			localedit.Words(&x.LocalChange, now), x.Root))
	}
	return true, nil
}

func takeLocalChange(c *core.Core, cl *state.Cluster, key string, ch wire.Change, now time.Time) error {
	old := cl.Locals[key]
	if ch.Deleted {
		delete(cl.Locals, key)
		return nil
	}
	var l wire.LocalChange
	if err := json.Unmarshal(ch.Value, &l); err != nil {
		return err
	}
	if l.Key() != key {
		return fmt.Errorf("it is about %q", state.Cut(l.Key(), state.MaxName))
	}
	if old == nil && len(cl.Locals) >= localedit.MaxChanges {
		return fmt.Errorf("%d local changes of it are kept already", localedit.MaxChanges)
	}
	localedit.CheckLocal(&l, cl.Name)
	if cl.Locals == nil {
		cl.Locals = map[string]*wire.LocalChange{}
	}
	cl.Locals[key] = &l
	tellQuota(c, l.App, l.Namespace, now)
	if old == nil || old.Change != l.Change {
		core.Say(c, now, cl, event.LocalChanged.On(l.App, "%s", localedit.Words(&l, now)))
	}
	return nil
}

// SeenLocal are the local changes and conflicts that who asks may see.
func SeenLocal(ctx context.Context, c *core.Core) ([]wire.LocalChange, []wire.Conflict) {
	v := core.View(c, func(m *state.Model) apiv1.LocalView { return localedit.Views(m, "") })
	who := access.From(ctx)
	return access.Visible(who, v.Changes, func(l wire.LocalChange) access.Object { return rest.OfLocal(l, false) }),
		access.Visible(who, v.Conflicts, func(x wire.Conflict) access.Object {
			return rest.OfLocal(x.LocalChange,
				false)
		})
}
