package supervise

import (
	"path/filepath"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/environment"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container"
	"github.com/verge-edge/verge/internal/wire"
)

// userOf is who an order runs as; nil is the user of this engine.
func (in *Instance) userOf(o *wire.Order) (*runtime.User, error) {
	if in.deps.Users == nil || state.Sandboxed(o) {
		return nil, nil //nolint:nilnil // see above
	}
	u := &runtime.User{}
	if o.Spec.User == "" {
		uid, err := in.deps.Users.Give(in.ID, in.rec.User)
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
	u.LowPorts = in.net.NetNS == "" && slices.ContainsFunc(o.Spec.Ports, func(p api.Port) bool { return p.Number > 0 && p.Number < 1024 })
	return u, nil
}

// noteUser keeps the report up to date of what runs as root that should not.
func (in *Instance) noteUser() {
	if in.deps.Users == nil {
		return
	}
	o := &in.rec.Order
	asRoot := in.task != nil && o.Spec != nil && !state.Sandboxed(o) && in.task.Handle().User == nil && !api.IsRoot(o.Spec.User)
	in.deps.Problems.Tell("users of instances", in.deps.Users.Note(in.ID, asRoot))
}

// view is what the process of an order sees of the machine: nothing of the worker's
// directory but what is the instance's own.
func (in *Instance) view(o *wire.Order, volumes []string) runtime.View {
	v := runtime.View{
		Hide:     append([]string{in.deps.Dir, filepath.Dir(users.ClaimsDir), filepath.Dir(container.DefaultAddress)}, in.deps.Hide...),
		Show:     append([]string{in.layout.Dir}, volumes...),
		Programs: filepath.SplitList(in.deps.Config.Path),
		Tmp:      in.layout.Tmp(),
		Devices:  environment.Paths(environment.Devices(o, in.deps.Devices())),
	}
	if own := in.deps.Config.Containerd; own != "" {
		v.Hide = append(v.Hide, own)
	}
	return v
}
