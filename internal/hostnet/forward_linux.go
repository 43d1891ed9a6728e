package hostnet

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

const ipForward = "/proc/sys/net/ipv4/ip_forward"

// Forwards says whether the machine forwards IPv4.
func Forwards() bool {
	b, err := os.ReadFile(ipForward)
	return err != nil || strings.TrimSpace(string(b)) != "0"
}

// ForwardsForDev says whether the machine forwards IPv4 because a verge dev let it.
func ForwardsForDev() bool {
	links, err := netlink.LinkList()
	return (err == nil || errors.Is(err, netlink.ErrDumpInterrupted)) &&
		slices.ContainsFunc(links, func(l netlink.Link) bool {
			return strings.HasPrefix(l.Attrs().Alias, DevForwards)
		})
}

// BeginForwarding lets the machine forward IPv4.
func BeginForwarding() error { return forward("1") }

// EndForwarding undoes BeginForwarding, for whoever has the table own. While others have
// rules for what is forwarded, or that cannot be told, the machine goes on with it.
func EndForwarding(own string) error {
	if others, err := Forwarders(own); err != nil || others {
		return err
	}
	return forward("0")
}

func forward(v string) error {
	if err := os.WriteFile(ipForward, []byte(v), 0o644); err != nil { //nolint:gosec // the kernel's
		return fmt.Errorf("set whether this machine forwards IPv4: %w", err)
	}
	return nil
}
