package hostnet

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Filter is a chain of somebody's that drops what instances send or get.
type Filter struct {
	// Family is ip, ip6 or inet; Hook is forward or input.
	Family, Table, Chain, Hook string
	// user says that there is a chain for people's own rules, as Docker has it.
	user bool
}

// String says what it does.
func (f Filter) String() string {
	what := "what is forwarded"
	if f.Hook == "input" {
		what = "what comes in"
	}
	return fmt.Sprintf("chain %s of table %s %s drops %s, so instances would reach neither each other nor their "+
		"name server", f.Chain, f.Family, f.Table, what)
}

// Remedy is what lets packets of instances pass, as commands.
func (f Filter) Remedy() string {
	command := map[string]string{"ip": "iptables", "ip6": "ip6tables"}[f.Family]
	var out []string
	for _, d := range [][2]string{{"-i", "iifname"}, {"-o", "oifname"}} {
		if d[0] == "-o" && f.Hook == "input" {
			continue
		}
		switch {
		case f.Table == "firewalld":
			return "firewall-cmd --permanent --zone=trusted --add-interface=" + Devices + "+; firewall-cmd --reload"
		case command != "" && f.Chain == strings.ToUpper(f.Chain):
			chain := f.Chain
			if f.user {
				chain = "DOCKER-USER"
			}
			out = append(out, fmt.Sprintf("%s -I %s %s %s+ -j ACCEPT", command, chain, d[0], Devices))
		default:
			out = append(out, fmt.Sprintf("nft insert rule %s %s %s %s '\"%s*\"' accept", f.Family, f.Table, f.Chain,
				d[1], Devices))
		}
	}
	return strings.Join(out, "; ")
}

// Filters are the chains of others that drop what is forwarded or comes in by default
// and have no rule for the devices of instances.
func Filters() ([]Filter, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("read the rules of this machine: %w", err)
	}
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("read the rules of this machine: %w", err)
	}
	var out []Filter
	for _, c := range chains {
		family := map[nftables.TableFamily]string{nftables.TableFamilyINet: "inet", nftables.TableFamilyIPv4: "ip",
			nftables.TableFamilyIPv6: "ip6"}[c.Table.Family]
		hook := hookOf(c)
		if family == "" || hook == "" || strings.HasPrefix(c.Table.Name, Tables) {
			continue
		}
		l := look{conn: conn, chains: chains, seen: map[string]bool{}}
		l.at(c)
		if (c.Policy == nil || *c.Policy != nftables.ChainPolicyDrop) && !l.refuses || l.in &&
			(l.out || hook == "input") {
			continue
		}
		out = append(out, Filter{family, c.Table.Name, c.Name, hook,
			slices.ContainsFunc(chains, func(x *nftables.Chain) bool {
				return x.Table.Family == c.Table.Family && x.Table.Name == c.Table.Name && x.Name == "DOCKER-USER" &&
					hook == "forward"
			})})
	}
	return out, nil
}

func hookOf(c *nftables.Chain) string {
	switch {
	case c.Type != nftables.ChainTypeFilter || c.Hooknum == nil:
	case *c.Hooknum == *nftables.ChainHookForward:
		return "forward"
	case *c.Hooknum == *nftables.ChainHookInput:
		return "input"
	}
	return ""
}

// look is what the rules of a chain, and of those that it leads to, say of the devices.
type look struct {
	conn   *nftables.Conn
	chains []*nftables.Chain
	seen   map[string]bool
	// in and out: there is a rule for what comes from, and goes to, the devices.
	in, out bool
	// refuses: the first chain ends with a rule that refuses everything.
	refuses bool
}

func (l *look) at(c *nftables.Chain) {
	if l.seen[c.Name] {
		return
	}
	first := len(l.seen) == 0
	l.seen[c.Name] = true
	rules, err := l.conn.GetRules(c.Table, c)
	if err != nil {
		return // somebody changes them at this moment
	}
	for i, r := range rules {
		in, out, any, verdict, refused := read(r)
		if first && i == len(rules)-1 {
			l.refuses = any && refused
		}
		if verdict == nil {
			continue
		}
		switch verdict.Kind {
		case expr.VerdictAccept:
			l.in, l.out = l.in || in || any, l.out || out || any
		case expr.VerdictJump, expr.VerdictGoto:
			// Who leads them somewhere of their own has thought of them.
			l.in, l.out = l.in || in, l.out || out
			if !any {
				continue
			}
			for _, x := range l.chains {
				if x.Table.Family == c.Table.Family && x.Table.Name == c.Table.Name && x.Name == verdict.Chain {
					l.at(x)
				}
			}
		}
	}
}

// read says of a rule whether it is about packets from (in) or to (out) the devices
// of instances, or any packets, and what it does with them.
func read(r *nftables.Rule) (in, out, any bool, verdict *expr.Verdict, refused bool) {
	any = true
	var key expr.MetaKey
	for _, e := range r.Exprs {
		switch x := e.(type) {
		case *expr.Meta:
			key = x.Key
		case *expr.Cmp:
			any = false
			// A name that may go on has no zero at its end.
			if x.Op == expr.CmpOpEq && len(x.Data) > 0 && bytes.HasPrefix(x.Data, []byte(Devices)) &&
				!bytes.HasSuffix(x.Data, []byte{0}) {
				in, out = in || key == expr.MetaKeyIIFNAME, out || key == expr.MetaKeyOIFNAME
			}
		case *expr.Counter, *expr.Log:
		case *expr.Verdict:
			verdict = x
			refused = x.Kind == expr.VerdictDrop
		case *expr.Reject:
			refused = true
		case *expr.Target:
			refused = x.Name == "REJECT"
		default:
			any = false
		}
	}
	return in, out, any, verdict, refused
}

// Strangers are the tables of other workers in this network namespace, by names but
// own.
func Strangers(own string) ([]string, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("read the rules of this machine: %w", err)
	}
	list, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return nil, fmt.Errorf("read the rules of this machine: %w", err)
	}
	var out []string
	for _, t := range list {
		if strings.HasPrefix(t.Name, Tables) && t.Name != own && !strings.HasSuffix(t.Name, Trial) {
			out = append(out, t.Name)
		}
	}
	return out, nil
}

// Forwarders says whether anybody but the one with the table own has rules for what the
// machine forwards, and so most likely goes by it that it does.
func Forwarders(own string) (bool, error) {
	conn, err := nftables.New()
	if err != nil {
		return false, fmt.Errorf("read the rules of this machine: %w", err)
	}
	chains, err := conn.ListChains()
	if err != nil {
		return false, fmt.Errorf("read the rules of this machine: %w", err)
	}
	return slices.ContainsFunc(chains, func(c *nftables.Chain) bool {
		name := c.Table.Name
		if c.Hooknum == nil || name == own || strings.HasPrefix(name, Tables) && strings.HasSuffix(name, Trial) {
			return false
		}
		nat := c.Type == nftables.ChainTypeNAT && *c.Hooknum == *nftables.ChainHookPostrouting
		return nat || hookOf(c) == "forward"
	}), nil
}
