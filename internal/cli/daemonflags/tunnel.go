package daemonflags

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// tunnelFlags are those of a worker that say how its packets for others travel.
func tunnelFlags(fl *pflag.FlagSet, f *WorkerFlags, port *string) {
	fl.StringVar(port, "wireguard-port", "auto",
		"UDP port at which other workers reach this one in the service network (auto: 8476)")
	fl.TextVar(&f.Tunnel.Uplink, "uplink", api.Bitrate(0),
		"what this machine's connection can send, as 20Mbps: traffic between workers stays below it, so that control "+
			"is not delayed (0: unknown)")
	fl.IntVar(&f.Tunnel.MTU, "mtu", 0,
		"largest packet of instances and between workers in bytes, 1280 to 1920 (0: what this machine's connection "+
			"allows, at most 1420, and 1280 on paths that do not carry it)")
}

// settleTunnel reads and checks what tunnelFlags got.
func settleTunnel(f *WorkerFlags, port string) error {
	t := &f.Tunnel
	if t.Port = 0; port != "auto" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return errMustBe("--wireguard-port", strconv.Quote(port), "auto or a port, 1 to 65535")
		}
		t.Port = uint16(n)
	}
	if t.Uplink != 0 && t.Uplink < wire.MinUplink {
		return errMustBe("--uplink", t.Uplink,
			fmt.Sprintf("at least %s, or 0 for no bound", api.Bitrate(wire.MinUplink)))
	}
	if t.MTU != 0 && (t.MTU < wire.MinMTU || t.MTU > wire.MaxMTU) {
		return errMustBe("--mtu", t.MTU, fmt.Sprintf("%d to %d, or 0", wire.MinMTU, wire.MaxMTU))
	}
	if *t != (wire.TunnelConfig{}) && f.Network == wire.NetworkLoopback {
		return fmt.Errorf("--wireguard-port, --uplink and --mtu are for the service network: start the worker with " +
			"--network auto or overlay")
	}
	return nil
}
