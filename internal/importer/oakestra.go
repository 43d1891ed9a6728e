package importer

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
)

// oakestraVersion is the only one that Oakestra takes.
const oakestraVersion = "v2.0"

// maxApplications bounds those of one descriptor.
const maxApplications = 1000

// oakestra makes applications of one document.
type oakestra struct {
	doc    *doc
	opts   Options
	report *report
	taken  map[string]string // published ports
	known  *oakestraNames
	// reached are the addresses that microservices of the application name, by host, with
	// who does.
	reached map[string][]namedHostPort
}

func importOakestra(docs []*doc, o Options, r *report, known *oakestraNames) (out []*made) {
	for _, d := range docs {
		k := &oakestra{doc: d, opts: o, report: r, taken: map[string]string{}, known: known}
		out = append(out, k.document()...)
	}
	return out
}

func (k *oakestra) document() (out []*made) {
	root := k.doc.root
	version := root.child("sla_version")
	switch {
	case root.kind != mappingKind:
		k.refuse(nil, "is no mapping: an Oakestra descriptor has sla_version and applications")
		return nil
	case version == nil && root.child("microservices") != nil:
		k.refuse([]string{"microservices"}, "belong to an application: write {\"sla_version\": %q, \"customerID\": …, \"applications\": [{\"application_name\": …, \"application_namespace\": …, \"microservices\": …}]} around them", oakestraVersion)
		return nil
	case version == nil:
		k.refuse(nil, "has no sla_version: Oakestra takes %q alone", oakestraVersion)
		return nil
	case version.kind != scalarKind || version.value != oakestraVersion:
		k.refuse([]string{"sla_version"}, "%s is not a version that Oakestra takes: it is %q", quote(version.text), oakestraVersion)
		return nil
	}
	apps := root.child("applications")
	if apps == nil || apps.kind != listKind || len(apps.values) == 0 {
		k.refuse([]string{"applications"}, "is no list of applications")
		return nil
	}
	if n := len(apps.values); n > maxApplications {
		k.refuse([]string{"applications"}, "has %d applications: divide it, at %d", n, maxApplications)
		return nil
	}
	if k.opts.Name != "" && len(apps.values) > 1 {
		k.refuse([]string{"applications"}, "has %d applications, which cannot all have the name of --name", len(apps.values))
		return nil
	}
	for _, h := range k.heads(apps.values) {
		if m := k.application(h); m != nil {
			out = append(out, m)
		}
	}
	k.report.leftovers(k.doc, root, nil, oakestraTrie())
	return out
}

func (k *oakestra) refuse(path []string, format string, args ...any) {
	k.report.at(Refused, k.doc, path, format, args...)
}

func (k *oakestra) lost(path []string, format string, args ...any) {
	k.report.at(Lost, k.doc, path, format, args...)
}

func (k *oakestra) said(path []string, format string, args ...any) {
	k.report.at(Said, k.doc, path, format, args...)
}

func (k *oakestra) application(h *head) *made {
	a, path := h.node, h.path
	app := &api.Application{Application: h.called, Services: map[string]*api.Service{}}
	if k.opts.Name != "" {
		app.Application = k.opts.Name
	} else if plain := label(h.name); h.called != plain {
		k.said(extend(path, "application_name"), "is called %s: %s is another application", h.called, plain)
	} else if h.called != h.name {
		k.said(extend(path, "application_name"), "is called %s", h.called)
	}
	if ns := h.namespace; ns != "" {
		if app.Namespace = label(ns); app.Namespace != ns {
			k.said(extend(path, "application_namespace"), "is called %s", app.Namespace)
		}
	}
	list, at := a.child("microservices"), extend(path, "microservices")
	if list == nil || list.kind != listKind || len(list.values) == 0 {
		k.refuse(at, "cannot be expressed: there are no microservices, and an application of Verge has at least one service")
		return nil
	}
	if n := len(list.values); n > api.MaxServices {
		k.refuse(at, "cannot be expressed: there are %d, and an application has at most %d", n, api.MaxServices)
		return nil
	}
	m := &made{app: app, kind: Oakestra, from: []string{k.doc.file}, doc: k.doc, origins: map[string]origin{}}
	micros := k.microservices(list, at, app.Namespace)
	if micros == nil {
		return nil
	}
	ids := idsOf(micros)
	var unlimited []string
	complete := true
	k.reached = named(list)
	for _, s := range micros {
		svc := k.service(s.node, s.path, s.called, ids)
		if svc == nil {
			complete = false
			continue
		}
		if finish(svc, k.opts) {
			unlimited = append(unlimited, s.called)
		}
		app.Services[s.called] = svc
		m.origins[s.called] = origin{k.doc, s.path}
		k.report.leftovers(k.doc, s.node, s.path, microserviceTrie())
	}
	limitNote(k.report, k.doc, unlimited, k.opts)
	if !complete {
		return nil // why has been said
	}
	k.oldNames(h, micros)
	return m
}

// number is a field that counts, 0 where there is none or it cannot be one.
func (k *oakestra) number(n *node, field string, path []string) float64 {
	c := n.child(field)
	if c == nil || c.value == nil {
		return 0
	}
	var v float64
	switch x := c.value.(type) {
	case int:
		v = float64(x)
	case uint64:
		v = float64(x)
	case float64:
		v = x
	default:
		k.refuse(extend(path, field), "is no number")
		return 0
	}
	if !(v >= 0) || v > 1e15 {
		k.refuse(extend(path, field), "%s is not an amount, which is from 0 to 1e15", quote(c.text))
		return 0
	}
	return v
}

// spelled is number by the name of the schema, or else by that of the documentation.
func (k *oakestra) spelled(n *node, schema, documented string, path []string) float64 {
	if n.child(documented) == nil {
		return k.number(n, schema, path)
	}
	if n.child(schema) != nil {
		k.lost(extend(path, documented), "is not carried over: %s counts, which Oakestra reads", schema)
		return k.number(n, schema, path)
	}
	k.said(extend(path, documented), "is taken for %s, which Oakestra reads; it would pass over this", schema)
	return k.number(n, documented, path)
}

func (k *oakestra) service(s *node, path []string, name string, ids map[string]string) *api.Service {
	if !k.shaped(s, path, microserviceShape()) {
		return nil
	}
	out := &api.Service{Runtime: api.Container}
	switch v := s.child("virtualization"); {
	case v == nil || v.value == nil:
		k.refuse(path, "has no virtualization")
		return nil
	case v.text == "wasm":
		k.refuse(extend(path, "virtualization"), "cannot be expressed: a module of WebAssembly is an object in Verge, and no address: fetch it, put it there (verge object put), and write runtime: wasm and module: NAME into a descriptor")
		return nil
	case v.text != "container" && v.text != "docker":
		k.refuse(extend(path, "virtualization"), "cannot be expressed: Verge runs no %s; make a container of it", quote(v.text))
		return nil
	}
	code := s.child("code")
	if code.empty() {
		k.refuse(path, "has no code, which is the image of its containers")
		return nil
	}
	out.Image = strings.TrimPrefix(code.text, "docker://")
	if strings.Contains(out.Image, "://") {
		k.lost(extend(path, "code"), "is the address of a file, and nothing that a container can be made of: name an image there, as Oakestra would need it too")
	}
	out.Command = k.texts(s, "cmd", path)
	writable(out)
	k.environment(s, path, out)
	k.volumes(s, path, out)
	k.amounts(s, path, out)
	k.ports(s, path, name, out)
	portVariables(k.report, k.doc, out, func(v string) []string { return k.envPath(s, path, v) })
	switch one := s.child("one_shot"); {
	case one == nil || one.value == nil || one.value == false:
	case one.value != true:
		k.refuse(extend(path, "one_shot"), "is neither true nor false")
	default:
		asJob(out, &api.Job{})
		k.said(extend(path, "one_shot"), "it is a job: it is not started again when it has ended with exit code 0, and up to %d times when it fails", api.DefaultRetries)
	}
	switch p := s.child("privileged"); {
	case p.empty() || p.value == false:
	case p.value != true:
		k.refuse(extend(path, "privileged"), "is neither true nor false")
	default:
		k.lost(extend(path, "privileged"), "is not carried over: no instance of Verge is privileged")
	}
	k.address(s, path, out)
	t := &thresholds{}
	k.constraints(s, path, out, t)
	k.connectivity(s, path, name, ids, out, t)
	t.apply(k, path, out)
	return out
}

// texts is a list of texts, as Verge writes them.
func (k *oakestra) texts(s *node, field string, path []string) (out []string) {
	list := s.child(field)
	if list.empty() {
		return nil
	}
	if list.kind != listKind {
		k.refuse(extend(path, field), "is no list of texts")
		return nil
	}
	for i, v := range list.values {
		if v.kind != scalarKind || v.value == nil {
			k.refuse(extend(path, field, index(i)), "is %s, and is to be a text", v.shape())
			return nil
		}
		out = append(out, literal(v.text))
	}
	return out
}

func (k *oakestra) environment(s *node, path []string, out *api.Service) {
	list := s.child("environment")
	if list.empty() {
		return
	}
	if list.kind != listKind {
		k.refuse(extend(path, "environment"), "is no list of NAME=VALUE")
		return
	}
	out.Env = map[string]string{}
	first := map[string]int{}
	for i, v := range list.values {
		at := extend(path, "environment", index(i))
		name, value, ok := strings.Cut(v.text, "=")
		if !ok || v.kind != scalarKind {
			k.refuse(at, "is not NAME=VALUE")
			continue
		}
		if was, twice := first[name]; !twice {
			first[name] = i
		} else if list.values[was].text != v.text {
			k.said(at, "%s is set in line %d as well: this value counts, which is the last", quote(name), k.doc.lineOf(extend(path, "environment", index(was))))
		}
		out.Env[name] = literal(value)
		if secretValue(name, value) && value != "" {
			k.said(at, "%s stays in the descriptor as it is: env_secrets would keep it out", name)
		}
	}
	validEnv(k.report, k.doc, out, func(v string) []string { return k.envPath(s, path, v) })
}

func (k *oakestra) envPath(s *node, path []string, name string) []string {
	for i, v := range slices.Backward(s.child("environment").values) { // the last counts
		if n, _, _ := strings.Cut(v.text, "="); n == name {
			return extend(path, "environment", index(i))
		}
	}
	return extend(path, "environment")
}

// amounts are what an instance reserves: memory and storage in MB, which Oakestra
// counts by 1024, bandwidth in kbit/s.
func (k *oakestra) amounts(s *node, path []string, out *api.Service) {
	out.Resources.Memory = k.megabytes(s, "memory", path)
	out.Resources.Disk = k.megabytes(s, "storage", path)
	out.Resources.CPU = api.CPU(thousandths(k.spelled(s, "vcpus", "vcpu", path)))
	out.Resources.VGPUs = api.Units(thousandths(k.spelled(s, "vgpus", "vgpu", path)))
	out.Resources.VTPUs = api.Units(thousandths(k.spelled(s, "vtpus", "vtpu", path)))
	if out.Resources.Memory > 0 {
		out.Limits.Memory = out.Resources.Memory
	}
	out.Resources.Bandwidth.In = k.bandwidth(k.number(s, "bandwidth_in", path), extend(path, "bandwidth_in"))
	out.Resources.Bandwidth.Out = k.bandwidth(k.spelled(s, "bandwidth_out", documentedOut, path), extend(path, "bandwidth_out"))
}

// thousandths are those of an amount, rounded up: a little of something is not nothing.
func thousandths(v float64) float64 { return math.Ceil(v*1000 - 1e-6) }

// megabytes is an amount in MB, of 1024 KB, from the least to the most of Verge.
func (k *oakestra) megabytes(n *node, field string, path []string) api.Bytes {
	const mb = 1 << 20
	v := k.number(n, field, path)
	switch most := float64(api.MaxBytes / mb); {
	case v > most:
		k.refuse(extend(path, field), "%s MB are more than %s, the most that an instance has: write %.0f or less", quote(n.child(field).text), api.MaxBytes, most)
		return 0
	case v > 0 && v < 1:
		k.lost(extend(path, field), "is raised to 1Mi, the least that can be reserved")
		return mb
	}
	return api.Bytes(v * mb)
}

// bandwidth is one in kbit/s.
func (k *oakestra) bandwidth(kbps float64, path []string) api.Bitrate {
	b := api.Bitrate(kbps * 1000)
	if b > 0 && b < api.MinBitrate {
		k.lost(path, "is raised to %s, the least that can be reserved", api.MinBitrate)
		b = api.MinBitrate
	}
	return b
}

// ports are "80", "8080:80", "53:53/udp", several with semicolons.
func (k *oakestra) ports(s *node, path []string, name string, out *api.Service) {
	at := extend(path, "port")
	c := s.child("port")
	if c.empty() {
		return
	}
	l := &portList{}
	for _, text := range strings.FieldsFunc(c.text, func(r rune) bool { return r == ';' || r == ',' || r == ' ' }) {
		pair, protocol, _ := strings.Cut(text, "/")
		outer, inner, both := strings.Cut(pair, ":")
		if !both {
			inner = outer
		}
		published, err1 := strconv.Atoi(outer)
		number, err2 := strconv.Atoi(inner)
		if err1 != nil || err2 != nil || published < 1 || published > 65535 || number < 1 || number > 65535 || protocol != "" && protocol != "tcp" && protocol != "udp" {
			k.refuse(at, "%s is not a port: Oakestra has 80, 8080:80 and 53:53/udp, with semicolons between them", quote(text))
			return
		}
		if protocol == "tcp" {
			protocol = ""
		}
		if err := publish(l.add("", number, protocol), published, k.taken, name); err != nil {
			k.lost(at, "%v", err)
		}
	}
	if len(l.ports) == 0 {
		k.refuse(at, "%s names no port", quote(c.text))
	}
	out.Ports = l.ports
}

// oakestraNetwork has the addresses that Oakestra lets services choose.
var oakestraNetwork = netip.MustParsePrefix("10.30.0.0/16")

func (k *oakestra) address(s *node, path []string, out *api.Service) {
	rr := s.child("addresses").str("rr_ip")
	at := extend(path, "addresses", "rr_ip")
	ip, err := netip.ParseAddr(rr)
	switch {
	case rr == "":
	case err != nil || !oakestraNetwork.Contains(ip):
		k.lost(at, "is not carried over: %s is not in %s, which Oakestra gives to services", quote(rr), oakestraNetwork)
	case !oakestraNetwork.Contains(ip.Prev()) || !oakestraNetwork.Contains(ip.Next()):
		k.lost(at, "is not carried over: %s is the first or the last address of %s, which is that of the network or its broadcast, and of no service", ip, oakestraNetwork)
	case k.known.addresses[rr] != "":
		k.refuse(at, "%s is the address of another microservice, in %s: Oakestra gives it to one", ip, k.known.addresses[rr])
	default:
		file, line := k.doc.placeOf(at)
		k.known.addresses[rr] = fmt.Sprintf("%s:%d", file, line)
		for _, a := range k.reached[rr] {
			if a.by != s.str("microservice_name") && reach(out, a.port) {
				k.said(at, "it gets the port %d over TCP, as %s names %s: over UDP write protocol: udp", a.port, a.by, a)
			}
		}
		if len(out.Ports) == 0 {
			k.lost(at, "is not carried over: the service has no port, and nothing says which others reach it at (port)")
			return
		}
		out.ServiceIP = ip.String()
	}
}
