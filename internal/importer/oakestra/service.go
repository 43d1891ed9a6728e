package oakestra

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/source"
)

func (k *converter) service(s *source.Node, path []string, name string, ids map[string]string) *api.Service {
	if !k.shaped(s, path, microserviceShape()) {
		return nil
	}
	out := &api.Service{Runtime: api.Container}
	switch v := s.Child("virtualization"); {
	case v == nil || v.Value == nil:
		k.refuse(path, "has no virtualization")
		return nil
	case v.Text == "wasm":
		k.refuse(source.Extend(path, "virtualization"),
			"cannot be expressed: a module of WebAssembly is an object in Verge, and no address: fetch it, put it "+
				"there (verge object put), and write runtime: wasm and module: NAME into a descriptor")
		return nil
	case v.Text != "container" && v.Text != "docker":
		k.refuse(source.Extend(path, "virtualization"), "cannot be expressed: Verge runs no %s; make a container of it",
			source.Quote(v.Text))
		return nil
	}
	code := s.Child("code")
	if code.Empty() {
		k.refuse(path, "has no code, which is the image of its containers")
		return nil
	}
	out.Image = strings.TrimPrefix(code.Text, "docker://")
	if strings.Contains(out.Image, "://") {
		k.lost(source.Extend(path, "code"),
			"is the address of a file, and nothing that a container can be made of: name "+
				"an image there, as Oakestra would need it too")
	}
	out.Command = k.texts(s, "cmd", path)
	draft.Writable(out)
	k.environment(s, path, out)
	k.volumes(s, path, out)
	k.amounts(s, path, out)
	k.ports(s, path, name, out)
	draft.PortVariables(k.report, k.doc, out, func(v string) []string { return k.envPath(s, path, v) })
	switch one := s.Child("one_shot"); {
	case one == nil || one.Value == nil || one.Value == false:
	case one.Value != true:
		k.refuse(source.Extend(path, "one_shot"), "is neither true nor false")
	default:
		draft.AsJob(out, &api.Job{})
		k.said(source.Extend(path, "one_shot"),
			"it is a job: it is not started again when it has ended with exit code 0, and up to %d times when it fails",
			api.DefaultRetries)
	}
	switch p := s.Child("privileged"); {
	case p.Empty() || p.Value == false:
	case p.Value != true:
		k.refuse(source.Extend(path, "privileged"), "is neither true nor false")
	default:
		k.lost(source.Extend(path, "privileged"), "is not carried over: no instance of Verge is privileged")
	}
	k.address(s, path, out)
	t := &thresholds{}
	k.constraints(s, path, out, t)
	k.connectivity(s, path, name, ids, out, t)
	t.apply(k, path, out)
	return out
}

// texts is a list of texts, as Verge writes them.
func (k *converter) texts(s *source.Node, field string, path []string) (out []string) {
	list := s.Child(field)
	if list.Empty() {
		return nil
	}
	if list.Kind != source.List {
		k.refuse(source.Extend(path, field), "is not a list of texts")
		return nil
	}
	for i, v := range list.Values {
		if v.Kind != source.Scalar || v.Value == nil {
			k.refuse(source.Extend(path, field, source.Index(i)), "is %s, and is to be a text", v.Describe())
			return nil
		}
		out = append(out, draft.Literal(v.Text))
	}
	return out
}

func (k *converter) environment(s *source.Node, path []string, out *api.Service) {
	list := s.Child("environment")
	if list.Empty() {
		return
	}
	if list.Kind != source.List {
		k.refuse(source.Extend(path, "environment"), "is not a list of NAME=VALUE")
		return
	}
	out.Env = map[string]string{}
	first := map[string]int{}
	for i, v := range list.Values {
		at := source.Extend(path, "environment", source.Index(i))
		name, value, ok := strings.Cut(v.Text, "=")
		if !ok || v.Kind != source.Scalar {
			k.refuse(at, "is not NAME=VALUE")
			continue
		}
		if was, twice := first[name]; !twice {
			first[name] = i
		} else if list.Values[was].Text != v.Text {
			k.said(at, "%s is set in line %d as well: this value counts, which is the last", source.Quote(name),
				k.doc.LineOf(source.Extend(path, "environment", source.Index(was))))
		}
		out.Env[name] = draft.Literal(value)
		if draft.SecretValue(name, value) && value != "" {
			k.said(at, "%s stays in the descriptor as it is: env_secrets would keep it out", name)
		}
	}
	draft.ValidEnv(k.report, k.doc, out, func(v string) []string { return k.envPath(s, path, v) })
}

func (k *converter) envPath(s *source.Node, path []string, name string) []string {
	for i, v := range slices.Backward(s.Child("environment").Values) { // the last counts
		if n, _, _ := strings.Cut(v.Text, "="); n == name {
			return source.Extend(path, "environment", source.Index(i))
		}
	}
	return source.Extend(path, "environment")
}

// ports are "80", "8080:80", "53:53/udp", several with semicolons.
func (k *converter) ports(s *source.Node, path []string, name string, out *api.Service) {
	at := source.Extend(path, "port")
	c := s.Child("port")
	if c.Empty() {
		return
	}
	l := &draft.Ports{}
	for _, text := range strings.FieldsFunc(c.Text, func(r rune) bool { return r == ';' || r == ',' || r == ' ' }) {
		pair, protocol, _ := strings.Cut(text, "/")
		outer, inner, both := strings.Cut(pair, ":")
		if !both {
			inner = outer
		}
		published, err1 := strconv.Atoi(outer)
		number, err2 := strconv.Atoi(inner)
		if err1 != nil || err2 != nil || published < 1 || published > 65535 || number < 1 || number > 65535 ||
			protocol != "" && protocol != "tcp" && protocol != "udp" {
			k.refuse(at, "%s is not a port: Oakestra has 80, 8080:80 and 53:53/udp, with semicolons between them",
				source.Quote(text))
			return
		}
		if protocol == "tcp" {
			protocol = ""
		}
		if err := draft.Publish(l.Add("", number, protocol), published, k.taken, name); err != nil {
			k.lost(at, "%v", err)
		}
	}
	if len(l.List) == 0 {
		k.refuse(at, "%s names no port", source.Quote(c.Text))
	}
	out.Ports = l.List
}

// serviceNetwork has the addresses that Oakestra lets services choose.
var serviceNetwork = netip.MustParsePrefix("10.30.0.0/16")

func (k *converter) address(s *source.Node, path []string, out *api.Service) {
	rr := s.Child("addresses").Str("rr_ip")
	at := source.Extend(path, "addresses", "rr_ip")
	ip, err := netip.ParseAddr(rr)
	switch {
	case rr == "":
	case err != nil || !serviceNetwork.Contains(ip):
		k.lost(at, "is not carried over: %s is not in %s, which Oakestra gives to services", source.Quote(rr),
			serviceNetwork)
	case !serviceNetwork.Contains(ip.Prev()) || !serviceNetwork.Contains(ip.Next()):
		k.lost(at, "is not carried over: %s is the first or the last address of %s, which is that of the network "+
			"or its broadcast, and of no service", ip, serviceNetwork)
	case k.known.Addresses[rr] != "":
		k.refuse(at, "%s is the address of another microservice, in %s: Oakestra gives it to one", ip,
			k.known.Addresses[rr])
	default:
		file, line := k.doc.Locate(at)
		k.known.Addresses[rr] = fmt.Sprintf("%s:%d", file, line)
		for _, a := range k.reached[rr] {
			if a.by != s.Str("microservice_name") && draft.Reach(out, a.Port) {
				k.said(at, "it gets the port %d over TCP, as %s names %s: over UDP write protocol: udp", a.Port, a.by,
					a)
			}
		}
		if len(out.Ports) == 0 {
			k.lost(at, "is not carried over: the service has no port, and nothing says which others reach it at (port)")
			return
		}
		out.ServiceIP = ip.String()
	}
}
