package engineconfig

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// deviceList writes devices for a comparison by people.
func deviceList(nodes []engineapi.DeviceNode) string {
	var out []string
	for i := range nodes {
		n := &nodes[i]
		out = append(out, n.ID+"="+strings.Join(n.Paths, ":")+" "+n.Model)
	}
	return strings.Join(out, ", ")
}

const maxConfig = 1 << 20

var configKind = &statefile.Kind{What: "the engine's configuration", Max: maxConfig, Version: wire.Version}

// Write leaves the engine what it needs to start by itself.
func Write(dir string, cfg engineapi.EngineConfig) error {
	b, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return err
	}
	if err := configKind.Put(filepath.Join(dir, engineapi.EngineConfigFile), b, atomicfile.Write); err != nil {
		return fmt.Errorf("writing the engine's configuration: %w", err)
	}
	return nil
}

// Read is what an earlier agent left for the engine.
func Read(dir string) (cfg engineapi.EngineConfig, err error) {
	_, err = configKind.Read(filepath.Join(dir, engineapi.EngineConfigFile), &cfg)
	return cfg, err
}

// Outdated says in words that a running engine still works with other settings
// than this agent was started with; "" where it does not.
func Outdated(had, now engineapi.EngineConfig) string {
	var what []string
	differs := func(name, a, b string) {
		if a != b {
			what = append(what, fmt.Sprintf("%s %q instead of %q", name, a, b))
		}
	}
	differs("--data", had.DataAddr, now.DataAddr)
	differs("--gateway", had.GatewayAddr, now.GatewayAddr)
	differs("--gateway-tls", had.Gateway.String(), now.Gateway.String())
	differs("--cpus", had.Capacity.CPU.String(), now.Capacity.CPU.String())
	differs("--memory", had.Capacity.Memory.String(), now.Capacity.Memory.String())
	differs("--disk", had.Capacity.Disk.String(), now.Capacity.Disk.String())
	differs("--allow-host-path", strings.Join(had.HostPaths, ","), strings.Join(now.HostPaths, ","))
	differs("--allow-host-user", strings.Join(had.HostUsers, ","), strings.Join(now.HostUsers, ","))
	differs("--device", deviceList(had.Devices), deviceList(now.Devices))
	differs("--bandwidth in", had.Capacity.Bandwidth.In.String(), now.Capacity.Bandwidth.In.String())
	differs("--bandwidth out", had.Capacity.Bandwidth.Out.String(), now.Capacity.Bandwidth.Out.String())
	if now.Network != wire.NetworkAuto { // which either will do for; what it is shows by itself
		differs("--network", cmp.Or(had.Network, wire.NetworkLoopback), cmp.Or(now.Network, wire.NetworkLoopback))
	}
	differs("--wireguard-port", strconv.Itoa(int(had.Tunnel.Port)), strconv.Itoa(int(now.Tunnel.Port)))
	differs("--uplink", had.Tunnel.Uplink.String(), now.Tunnel.Uplink.String())
	differs("--mtu", strconv.Itoa(had.Tunnel.MTU), strconv.Itoa(now.Tunnel.MTU))
	differs("--relay", had.Relay.String(), now.Relay.String())
	differs("--containerd", had.Containerd, now.Containerd)
	differs("--pull-rate", had.Pull.Rate.String(), now.Pull.Rate.String())
	differs("--image-keep", had.Pull.KeepUnused.String(), now.Pull.KeepUnused.String())
	differs("--image-disk-high", strconv.Itoa(had.Pull.DiskHigh), strconv.Itoa(now.Pull.DiskHigh))
	differs("--registry-hosts", had.Pull.Hosts, now.Pull.Hosts)
	differs("--registry-mirror", mirrorList(had.Pull.Mirrors), mirrorList(now.Pull.Mirrors))
	differs("PATH", had.Path, now.Path)
	if len(what) == 0 {
		return ""
	}
	return "the engine keeps its former settings (" + strings.Join(what,
		", ") + "): stop the agent, then `verge worker stop`, then start it again"
}

// mirrorList is a text of mirrors of registries.
func mirrorList(mirrors map[string]string) string {
	var out []string
	for _, host := range slices.Sorted(maps.Keys(mirrors)) {
		out = append(out, host+"="+mirrors[host])
	}
	return strings.Join(out, ",")
}
