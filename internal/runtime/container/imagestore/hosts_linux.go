package imagestore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	// Reads hosts.toml as containerd and K3s do: mirrors, authorities, headers.
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	// Of that package, which only logs that it cannot read a file.
	"github.com/pelletier/go-toml/v2"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/registryhttp"
)

// defaultHosts is where the machine says how registries are reached, for containerd too.
const defaultHosts = "/etc/containerd/certs.d"

// hostsFile is the file of a registry, in a folder with its name.
const hostsFile = "hosts.toml"

// errHosts is wrapped where what the machine says of a registry cannot be read.
var errHosts = errors.New("how its registry is reached cannot be read")

// registries are those of an image: its mirror by the worker's settings, then what the
// machine says in hosts.toml, each with the credentials that it is given. broke is set
// where a connection breaks off in an answer. Who sends nothing is asked no more by what
// this returns.
func (st *Store) registries(ctx context.Context, what *runtime.Container, broke *atomic.Bool) docker.RegistryHosts {
	var mute sync.Map
	update := func(bound *registryhttp.Reach) config.UpdateClientFunc {
		return func(c *http.Client) error {
			if _, done := c.Transport.(*registryhttp.Transport); !done { // it is asked once more for what has headers
				if base, ok := c.Transport.(*http.Transport); ok {
					bound.Guard(base)
				}
				c.Transport = &registryhttp.Transport{Next: c.Transport, Stall: st.Stall, Pace: st.Pace, Broke: broke, Mute: &mute,
					Reach: bound}
			}
			return nil
		}
	}
	return func(host string) ([]docker.RegistryHost, error) {
		bound := registryhttp.NewReach()
		o := config.HostOptions{HostDir: st.hostDir, UpdateClient: update(bound)}
		if local, err := docker.MatchLocalhost(host); err == nil && local {
			o.DefaultScheme = "http"
		}
		if what.Login != nil {
			o.Credentials = func(host string) (string, string, error) {
				user, secret := what.Login(host)
				return user, secret, nil
			}
		}
		hosts, err := config.ConfigureHosts(ctx, o)(host)
		if err != nil && !errors.Is(err, errHosts) {
			err = fmt.Errorf("%w, of %s in %s: %w", errHosts, host, st.Hosts, err)
		}
		bound.Name(hosts)
		if err != nil || st.Mirrors[host] == "" {
			return hosts, err
		}
		mirror, err := url.Parse(st.Mirrors[host])
		if err != nil || mirror.Host == "" {
			return nil, fmt.Errorf("the mirror %q of %s is not a URL", st.Mirrors[host], host)
		}
		bound = registryhttp.NewReach()
		o.DefaultScheme, o.UpdateClient = mirror.Scheme, update(bound)
		first, err := config.ConfigureHosts(ctx, o)(mirror.Host) // with an authority of its own, where there is one
		bound.Name(first)
		return append(first, hosts...), err
	}
}

// hostDir is the folder of a registry in which the machine says how it is reached. A file
// there that cannot be read is an error: without it the registry itself would be asked,
// which somebody wanted otherwise.
func (st *Store) hostDir(host string) (string, error) {
	dir, err := config.HostDirFromRoot(st.Hosts)(host)
	if err != nil {
		return "", err // there is none: not found
	}
	path := filepath.Join(dir, hostsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return dir, nil // certificates alone
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", errHosts, err)
	}
	if err := toml.Unmarshal(text, &map[string]any{}); err != nil {
		var where *toml.DecodeError
		if errors.As(err, &where) {
			row, column := where.Position()
			return "", fmt.Errorf("%w: %s:%d:%d: %w", errHosts, path, row, column, err)
		}
		return "", fmt.Errorf("%w: %s: %w", errHosts, path, err)
	}
	return dir, nil
}
