package overlay

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/overlay/link"
	"github.com/verge-edge/verge/internal/overlay/rules"
)

// trial is the number of the link that is made to see whether one can be.
const trial = 1<<24 - 1

// strangers is an error where another worker has rules in this network namespace,
// whether it runs at this moment or not: its instances may.
func (n *Network) strangers() error {
	list, err := hostnet.Strangers(n.table.Name())
	if err != nil || len(list) == 0 {
		return err
	}
	who := "another worker"
	if mark, ok := strings.CutPrefix(list[0], hostnet.Tables); ok {
		if label, err := n.links.Label(hostnet.Devices + mark + servicesDevice); err == nil && label != "" {
			who = label + ","
		}
	}
	return fmt.Errorf("%s has left its part of the service network on this machine (table inet %s): start it again "+
		"and end it by verge worker stop; if its folder is gone, verge worker clean removes it", who, list[0])
}

// try makes what a worker with one instance needs, under names of its own, and
// removes it: what is missing shows now, and not when instances are waiting.
func (n *Network) try(mark string) error {
	id := ".try"
	_, err := n.links.Make(link.Spec{ID: id, Number: trial})
	if err = errors.Join(err, n.links.Remove(id, trial)); err != nil {
		return err
	}
	t, err := rules.Open(mark + hostnet.Trial)
	if err != nil {
		return err
	}
	defer func() { _ = t.Close() }() // nothing is left of it
	// Addresses that nobody has: 0100::/64 is there to be thrown away, what begins with
	// 240 was never given to anybody.
	six, four := netip.MustParseAddr("100::1"), netip.MustParseAddr("240.0.1.1")
	service := rules.Service{Name: id, Addr6: netip.MustParseAddr("100::2"), Addr4: netip.MustParseAddr("240.1.0.1")}
	for _, proto := range []string{"tcp", "udp"} {
		p := rules.Port{Proto: proto, Port: 1, Rotate: proto == "tcp"}
		for port := range uint16(2) {
			p.To6 = append(p.To6, rules.Backend{To: netip.AddrPortFrom(six, port+1), Weight: 1})
			p.To4 = append(p.To4, rules.Backend{To: netip.AddrPortFrom(four, port+1), Weight: 1})
		}
		service.Ports = append(service.Ports, p)
	}
	device := n.links.Device(trial)
	m := &rules.Model{
		Space: rules.Space{
			Root: netip.MustParsePrefix("100::/64"), Worker: netip.MustParsePrefix("100::/80"),
			Services: netip.MustParsePrefix("100::/80"), Host6: six,
			Pool: netip.MustParsePrefix("240.0.0.0/16"), Worker4: netip.MustParsePrefix("240.0.1.0/24"),
			Services4: netip.MustParsePrefix("240.1.0.0/16"), Host4: four,
		},
		Devices:  rules.Devices{Own: device, Links: device, Services: device + "s", Peers: device + "w"},
		Links:    []rules.Link{{Device: device, App: 1, Addr6: six, Addr4: four}},
		Services: []rules.Service{service},
	}
	return errors.Join(t.Apply(m), t.Remove())
}
