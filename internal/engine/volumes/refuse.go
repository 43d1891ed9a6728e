package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime/workdir"
	"github.com/verge-edge/verge/internal/wire"
)

// Dir holds the named volumes, below the engine's directory: by namespace,
// instance and name. Only Store.Remove removes them.
const Dir = "volumes"

// Of are the volumes of an order. Named ones are made if they are not there yet.
func (s *Store) Of(o *wire.Order) ([]workdir.Volume, error) {
	var out []workdir.Volume
	for i := range o.Spec.Volumes {
		v := &o.Spec.Volumes[i]
		w := workdir.Volume{Path: v.Path, Tmpfs: v.Tmpfs, ReadOnly: v.ReadOnly}
		var err error
		switch {
		case v.Name != "":
			w.Dir = s.dir(wire.VolumeRef{Namespace: wire.OrderNamespace(o), Instance: o.ID, Name: v.Name})
			err = atomicfile.MkdirAll(w.Dir, 0o700)
		case v.Host != "":
			w.Dir, err = hostDir(v.Host, s.o.HostPaths)
		}
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", v.Path, err)
		}
		out = append(out, w)
	}
	return out, nil
}

// hostDir finds out where a directory of the machine really is, and whether that
// is allowed.
func hostDir(path string, allowed []string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no %s on this worker; make it there, or choose another directory", path)
	case err != nil:
		return "", fmt.Errorf("%s of this worker: %w", path, err)
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return "", fmt.Errorf("%s of this worker is not a directory", path)
	}
	for _, prefix := range allowed {
		if p, err := filepath.EvalSymlinks(prefix); err == nil && state.Within(real, p) {
			return real, nil
		}
	}
	if real != path {
		path += " (which is " + real + ")"
	}
	return "", errors.New(notAllowed(path, allowed))
}

// notAllowed says why a directory of the machine is refused.
func notAllowed(path string, allowed []string) string {
	if len(allowed) == 0 {
		return fmt.Sprintf("this worker gives no directory of its own to instances, so not %s either; its operator "+
			"can allow some with --allow-host-path", path)
	}
	return fmt.Sprintf("%s is not below a directory that this worker gives to instances (--allow-host-path): %s", path,
		strings.Join(allowed, ", "))
}

// Refuses says why this worker can't give an instance its volumes, as far as known without a
// check; "" if it can.
func Refuses(s *api.Service, hostPaths []string, cannotMount string) string {
	for i := range s.Volumes {
		v := &s.Volumes[i]
		if v.Host != "" && !slices.ContainsFunc(hostPaths,
			func(dir string) bool { return state.Within(v.Host, filepath.Clean(dir)) }) {
			return fmt.Sprintf("volume %s: %s", v.Path, notAllowed(v.Host, hostPaths))
		}
		if cannotMount == "" {
			continue
		}
		switch {
		case s.Runtime == api.Container: // whose mounts are made by others
		case v.Tmpfs > 0:
			return fmt.Sprintf("volume %s: a directory in memory has to be mounted, which this worker may not: %s",
				v.Path, cannotMount)
		case v.ReadOnly:
			return fmt.Sprintf("volume %s: read_only has to be mounted, which this worker may not: %s; leave "+
				"read_only out, or choose another worker", v.Path, cannotMount)
		}
	}
	return ""
}
