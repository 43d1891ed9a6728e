package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/workdir"
	"github.com/verge-edge/verge/internal/wire"
)

// rotateAgain is when an exchange of secret files that failed is tried again.
const rotateAgain = 30 * time.Second

// held are the versions of secrets that a start of an order is given: those in its files and
// variables that are here.
func (in *Instance) held(o *wire.Order) []wire.SecretHeld {
	var names []string
	for _, f := range o.Spec.Files {
		if f.Secret != "" {
			names = append(names, f.Secret)
		}
	}
	for _, name := range o.Spec.EnvSecrets {
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	names = slices.Compact(names)
	versions := in.deps.Secrets.Versions(wire.OrderNamespace(o), names)
	out := make([]wire.SecretHeld, len(names))
	for i, name := range names {
		out[i] = wire.SecretHeld{Name: name, Version: versions[name], At: time.Now().Round(0)}
	}
	return out
}

// rotate writes new values of secrets into the files of a task, each atomically. Variables of a
// process cannot change: that a newer value exists is shown. A removed secret stays as it is.
func (in *Instance) rotate(ctx context.Context) {
	o := &in.rec.Order
	in.rotateAt = time.Time{}
	now := in.held(o)
	next := make([]wire.SecretHeld, len(now))
	changed := false
	for i, n := range now {
		was := wire.SecretHeld{Name: n.Name} // of a record by an engine that kept none
		if k := slices.IndexFunc(in.rec.Secrets, func(h wire.SecretHeld) bool { return h.Name == n.Name }); k >= 0 {
			was = in.rec.Secrets[k]
		}
		next[i] = in.exchange(ctx, o, was, n)
		if next[i].Why != "" {
			in.rotateAt = time.Now().Add(rotateAgain)
		}
		changed = changed || next[i] != was
	}
	if !changed || in.task == nil {
		return
	}
	in.rec.Secrets = next
	in.save()
	in.display(in.why)
}

// exchange brings the newest value of one secret to the task, which has another, and
// returns what it has then.
func (in *Instance) exchange(ctx context.Context, o *wire.Order, was, newest wire.SecretHeld) wire.SecretHeld {
	if newest.Version == "" || newest.Version == was.Version {
		return was
	}
	variable := slices.Contains(slices.Collect(maps.Values(o.Spec.EnvSecrets)), was.Name)
	paths := filesOf(o, was.Name)
	if len(paths) == 0 {
		if was.Version == "" { // nobody knows what it was started with
			return newest
		}
		was.Next = newest.Version
		return was
	}
	if err := in.replaceFiles(ctx, o, was.Name, paths); err != nil {
		if ctx.Err() != nil || errors.Is(err, runtime.ErrGone) {
			return was
		}
		in.log.Warn("the new value of a secret could not be put into its files", "name", was.Name, "error", err)
		was.Next, was.Why = newest.Version, err.Error()
		return was
	}
	in.log.Info("the new value of a secret is in its files", "name", was.Name)
	if variable && was.Version != "" {
		newest.Next = newest.Version
	}
	return newest
}

// filesOf are the places among the files of an order, in their order, of those that
// hold a secret.
func filesOf(o *wire.Order, secret string) (places []int) {
	for i, path := range slices.Sorted(maps.Keys(o.Spec.Files)) {
		if o.Spec.Files[path].Secret == secret {
			places = append(places, i)
		}
	}
	return places
}

// replaceFiles puts the value that a secret has now into the files of the task.
func (in *Instance) replaceFiles(ctx context.Context, o *wire.Order, secret string, places []int) error {
	known, err := in.deps.Secrets.OpenAll(wire.OrderNamespace(o), []string{secret})
	if err != nil {
		return err
	}
	all := slices.Sorted(maps.Keys(o.Spec.Files))
	for _, i := range places {
		f := workdir.File{
			Path: all[i], Content: known[secret], Secret: true,
			Mode: fs.FileMode(cmp.Or(o.Spec.Files[all[i]].Mode, api.DefaultFileMode)).Perm(),
		}
		contained := state.RuntimeOf(o) == api.Container
		if contained {
			f.Path = containerFile(i)
		}
		if err := in.workdir().Replace(f, i); err != nil {
			return err
		}
		if !contained {
			continue
		}
		t, ok := in.task.(runtime.Exchanger)
		if !ok {
			return fmt.Errorf("file %s: this worker cannot exchange files of a container that runs", all[i])
		}
		if err := t.Exchange(ctx, filepath.Join(in.layout.Work(), f.Path)); err != nil {
			return fmt.Errorf("file %s: %w", all[i], err)
		}
	}
	return nil
}

// containerFile is what the i-th file of a container is called in the working directory
// of its instance.
func containerFile(i int) string { return "file-" + strconv.Itoa(i) }

// rotation returns a channel that fires when secret files should be tried to be
// exchanged again; it never does while none failed.
func (in *Instance) rotation() (<-chan time.Time, func()) {
	if in.rotateAt.IsZero() {
		return nil, func() {}
	}
	t := time.NewTimer(max(time.Until(in.rotateAt), 0))
	return t.C, func() { t.Stop() }
}
