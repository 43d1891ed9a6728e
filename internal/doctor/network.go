package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/wire"
)

const checkNetwork, pageNetwork = "service network", "docs/network.md#what-the-service-network-needs"

// place is what a worker was given of the service network; nil if nothing yet.
func (n Node) place() (*wire.Lease, error) {
	const most = 64 << 20
	b, err := atomicfile.ReadBounded(filepath.Join(n.Dir, engineapi.EngineOrdersFile), most)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var o struct {
		Network *wire.Network `json:"network"`
	}
	if err := json.Unmarshal(b, &o); err != nil || o.Network == nil {
		return nil, err
	}
	var l wire.Lease
	return &l, json.Unmarshal(o.Network.Lease.Body, &l)
}

// addresses looks at what the worker was given of the network, and whether the
// machine itself is in one of its networks.
func (n Node) addresses(host []netip.Prefix) Finding {
	const check = "addresses"
	l, err := n.place()
	switch {
	case err != nil:
		return bad(Warn, check, pageNetwork, "start the worker: it fetches its orders again",
			"what it was given cannot be read: %v", err)
	case l == nil:
		return bad(Note, check, pageNetwork, "it comes from the cluster when the worker has joined",
			"nothing was given to this worker yet")
	}
	for _, h := range host {
		for _, own := range []struct {
			flag   string
			prefix netip.Prefix
		}{{"--network-pool", l.Pool}, {"--network-services", l.Services}, {"--network-prefix", l.Prefix}} {
			if own.prefix.IsValid() && own.prefix.Overlaps(h) {
				return bad(Warn, check, pageNetwork, "give the root another one before clusters join ("+own.flag+
					"), or take that network off this machine",
					"this machine is in %s, which overlaps with %s of the service network", h, own.prefix)
			}
		}
	}
	text := fmt.Sprintf("number %d of %s", l.Number, l.Prefix)
	if !l.IPv4.IsValid() {
		return bad(Note, check, pageNetwork, "give the root a larger --network-pool before clusters join",
			"%s, and no IPv4: the pool %s is used up", text, l.Pool)
	}
	return ok(check, "%s, %s", text, l.IPv4)
}

// uplink looks whether traffic between workers is kept below what the connection
// carries.
func uplink(rate string, shapes bool) Finding {
	const check, page = "uplink", "docs/network.md#a-slow-connection"
	switch {
	case rate == "0bps":
		return bad(Note, check, page, "where the connection is slow, set --uplink to what it can send",
			"not set: traffic between workers may fill the queues of the connection, and control waits in them")
	case !shapes:
		return bad(Warn, check, page, "modprobe sch_tbf", "--uplink %s has no effect: the kernel has no tbf", rate)
	}
	return ok(check, "traffic between workers keeps below %s", rate)
}

// hostNetworks are those of the addresses of this machine, but the loopback's and
// those of instances.
func hostNetworks() (out []netip.Prefix) {
	list, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback != 0 || strings.HasPrefix(i.Name, hostnet.Devices) {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
				out = append(out, p.Masked())
			}
		}
	}
	return out
}
