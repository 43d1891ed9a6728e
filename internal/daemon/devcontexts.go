package daemon

import (
	"net/netip"
	"net/url"
	"os"
	"path/filepath"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/cli/daemonflags"
)

// devContext is the name of the root's context among those of the user; those of the
// clusters have theirs after a dash.
const devContext = "dev"

// register adds the contexts of the root and the clusters to those of the user, from the
// files that they have made, by name of the context. What the user calls so already stays,
// unless it is of an earlier verge dev. It returns the names, in the order of order, and
// what removes them again.
func register(p daemonflags.Process, order []string, files map[string]string) (names []string, forget func(),
	err error) {
	written := map[string]string{}
	forget = func() {
		for path, text := range written {
			if now, err := os.ReadFile(path); err == nil && string(now) == text {
				_ = os.Remove(path) // it leads nowhere any more; the next verge dev replaces it
			}
		}
	}
	dir, err := client.ContextDir(p.Getenv)
	if err != nil {
		return nil, forget, nil //nolint:nilerr // the user has no place for contexts, and needs none
	}
	// Of contexts, verge, .config: a home that does not exist is not made.
	if _, err := os.Stat(filepath.Dir(filepath.Dir(filepath.Dir(dir)))); err != nil {
		return nil, forget, nil //nolint:nilerr // as above
	}
	for _, name := range order {
		path, err := client.ContextPath(dir, name)
		if err != nil {
			return names, forget, err
		}
		if old, err := client.ReadContext(path); err == nil && !ofDev(old.Server) {
			continue
		}
		e, err := client.ReadContext(files[name])
		if err != nil {
			return names, forget, err
		}
		e.Name = name
		if err := client.WriteContext(path, e); err != nil {
			return names, forget, err
		}
		if written[path], err = e.Encode(); err != nil {
			return names, forget, err
		}
		names = append(names, name)
	}
	return names, forget, nil
}

// ofDev says whether a server is where those of verge dev are: on this machine's loopback, or
// at a bridge of its own.
func ofDev(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(u.Hostname())
	return err == nil && (a.IsLoopback() || devRange.Contains(a))
}
