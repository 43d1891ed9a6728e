package compose

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/source"
)

// ports converts the ports that a service publishes or exposes.
func (c *converter) ports(name string, s types.ServiceConfig, out *api.Service) {
	l := &draft.Ports{}
	at := []string{"ports"}
	for i, p := range s.Ports {
		at = c.portPath(name, len(s.Ports), i, p, at)
		protocol := p.Protocol
		switch p.Protocol {
		case "", "tcp":
			protocol = draft.ProtocolOf(p.AppProtocol)
		case "udp":
		default:
			c.lost(name, "is not carried over: "+source.Quote(p.Protocol)+" is not a protocol of Verge", at...)
			continue
		}
		port := l.Add(p.Name, int(p.Target), protocol)
		if p.Published == "" {
			c.lost(name, "is not published: Docker chooses a port of the machine for it, and a gateway has those "+
				"that are named (ingress: {port: …})", at...)
			continue
		}
		if p.Mode == "host" {
			c.said(name, "is published at "+p.Published+" of the gateways, and not of each worker", at...)
		}
		ip, _ := netip.ParseAddr(p.HostIP)
		if ip.IsLoopback() {
			c.lost(name, "is not published: "+p.HostIP+" is the machine alone, and gateways serve everybody", at...)
			continue
		}
		if p.HostIP != "" && !ip.IsUnspecified() {
			c.lost(name, source.Quote(p.HostIP)+
				" is not carried over: gateways serve at all addresses of their machines", at...)
		}
		n, err := strconv.Atoi(p.Published)
		if err != nil || n < 1 {
			c.lost(name, "is not published: "+source.Quote(p.Published)+" is not one port", at...)
			continue
		}
		if err := draft.Publish(port, n, c.taken, c.names[name]); err != nil {
			c.lost(name, err.Error(), at...)
		}
	}
	for i, e := range s.Expose {
		number, protocol, _ := strings.Cut(e, "/")
		first, last, isRange := strings.Cut(number, "-")
		from, err := strconv.Atoi(first)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 1 || to > 65535 || to < from || to-from > 63 || protocol != "" && protocol != "tcp" &&
			protocol != "udp" {
			c.lost(name, "is not carried over: "+source.Quote(e)+" is not a port, or too many", "expose",
				source.Index(i))
			continue
		}
		if protocol == "tcp" {
			protocol = ""
		}
		for n := from; n <= to; n++ {
			l.Add("", n, protocol)
		}
	}
	out.Ports = l.List
}

// portPath returns where the i-th port of n is written. Without ranges the indexes match. With
// them it is the entry that has its numbers, or else that of the port before.
func (c *converter) portPath(name string, n, i int, p types.ServicePortConfig, before []string) []string {
	written := c.doc.Root.Child("services").Child(name).Child("ports")
	switch {
	case written == nil || written.Kind != source.List:
		return []string{"ports"}
	case len(written.Values) == n:
		return []string{"ports", source.Index(i)}
	}
	for j, v := range written.Values {
		text, _, _ := strings.Cut(v.Text, "/")
		if v.Kind == source.Mapping {
			text = v.Str("published") + ":" + v.Str("target")
		}
		target := strconv.Itoa(int(p.Target))
		if text == target || strings.HasSuffix(text, p.Published+":"+target) {
			return []string{"ports", source.Index(j)}
		}
	}
	return before
}

func (c *converter) portVariables(name string, out *api.Service) {
	draft.PortVariables(c.report, c.doc, out, func(k string) []string { return c.path(name, c.envPath(name, k)...) })
}
