package agent

import (
	"net"
	"strings"

	"github.com/verge-edge/verge/internal/wire"
)

// advertised is the address by which others reach the data port: what was set,
// completed by what is known; "" where there is none.
func advertised(set, listening string, links []string) string {
	if listening == "" || set == "none" {
		return ""
	}
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return ""
	}
	if set != "" {
		if h, p, err := net.SplitHostPort(set); err == nil {
			return net.JoinHostPort(h, p)
		}
		return net.JoinHostPort(strings.Trim(set, "[]"), port)
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		return listening
	}
	// The address of this machine on the way to its cluster. Nothing is sent.
	for _, l := range links {
		c, err := net.Dial("udp", l)
		if err != nil {
			continue
		}
		local, _, err := net.SplitHostPort(c.LocalAddr().String())
		_ = c.Close() // nothing was written
		if err == nil {
			return net.JoinHostPort(local, port)
		}
	}
	return ""
}

// reachedRelay is what is said of the network, with the address by which others
// reach the relay that this worker is.
func reachedRelay(n *wire.NetworkInfo, set string, links []string) *wire.NetworkInfo {
	if n == nil || n.Relay == nil || len(n.Relay.Addresses) == 0 {
		return n
	}
	if host, _, err := net.SplitHostPort(set); err == nil {
		set = host // its port is that of the data port
	}
	said, r := *n, *n.Relay
	r.Addresses = nil
	if at := advertised(set, n.Relay.Addresses[0], links); at != "" {
		r.Addresses = []string{at}
	}
	said.Relay = &r
	return &said
}
