package engine

import (
	"path/filepath"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/environment"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container"
	"github.com/verge-edge/verge/internal/runtime/process"
	"github.com/verge-edge/verge/internal/wire"
)

// isolating is a driver that can run what it starts as users of their own.
type isolating interface {
	// CannotIsolate says why it can not, "" if it can.
	CannotIsolate() string
}

// openUsers finds out whether instances can have users of their own here, and says so.
func (e *Engine) openUsers(k *kit) {
	why := "its runtime cannot run an instance as another user"
	if d, ok := k.drivers[process.Name].(isolating); ok {
		why = d.CannotIsolate()
	}
	if why == "" {
		k.users = users.New(users.ClaimsDir, filepath.Join(k.dir, state.InstancesDir))
	}
	e.board.SetInfo(func(i *wire.EngineInfo) {
		i.Isolation = &wire.Isolation{Users: why == "", Why: why, HostUsers: k.config.HostUsers}
	})
}

// userOf is who an order runs as; nil is the user of this engine.
func (in *instance) userOf(o *wire.Order) (*runtime.User, error) {
	if in.kit.users == nil || state.Sandboxed(o) {
		return nil, nil //nolint:nilnil // see above
	}
	u := &runtime.User{}
	if o.Spec.User == "" {
		uid, err := in.kit.users.Give(in.id, in.rec.User)
		if err != nil {
			return nil, err
		}
		in.rec.User = uid
		u.UID, u.GID = uid, uid
	} else {
		var err error
		if u, err = users.Lookup(o.Spec.User); err != nil || u == nil {
			return nil, err
		}
	}
	u.LowPorts = in.netns == "" && slices.ContainsFunc(o.Spec.Ports, func(p api.Port) bool { return p.Number > 0 && p.Number < 1024 })
	return u, nil
}

// noteUser keeps the report up to date of what runs as root that should not.
func (in *instance) noteUser() {
	if in.kit.users == nil {
		return
	}
	o := &in.rec.Order
	asRoot := in.task != nil && o.Spec != nil && !state.Sandboxed(o) && in.task.Handle().User == nil && !api.IsRoot(o.Spec.User)
	in.kit.problems.Tell("users of instances", in.kit.users.Note(in.id, asRoot))
}

// view is what the process of an order sees of the machine: nothing of the worker's
// directory but what is the instance's own.
func (in *instance) view(o *wire.Order, volumes []string) runtime.View {
	v := runtime.View{
		Hide:     append([]string{in.kit.dir, filepath.Dir(users.ClaimsDir), filepath.Dir(container.DefaultAddress)}, in.kit.hide...),
		Show:     append([]string{in.place.Dir}, volumes...),
		Programs: filepath.SplitList(in.kit.config.Path),
		Tmp:      in.place.Tmp(),
		Devices:  environment.Paths(environment.Devices(o, in.kit.devices())),
	}
	if own := in.kit.config.Containerd; own != "" {
		v.Hide = append(v.Hide, own)
	}
	return v
}
