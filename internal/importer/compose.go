package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	// compose-go is what docker compose itself reads files with: their short forms, their
	// schema and their rules are its business.
	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
)

// composer makes an application of a compose file.
type composer struct {
	doc     *doc
	source  Source
	opts    Options
	report  *report
	project *types.Project
	// secrets are the variables of services whose values are not in the file, by service
	// and variable: names of secrets.
	secrets map[string]map[string]string
	names   map[string]string   // of services, in Verge
	wanted  map[string][]string // services that others reach, by whom
	taken   map[string]string   // published ports, by whom
	app     *api.Application
}

// Variables reads a file of variables as docker compose reads .env. The values of its
// error are not shown.
func Variables(data []byte) (map[string]string, error) {
	if err := readable(data); err != nil {
		return nil, err
	}
	vars, err := dotenv.UnmarshalBytesWithLookup(data, func(string) (string, bool) { return "", false })
	if err != nil {
		return nil, errors.New("it is no list of NAME=VALUE")
	}
	return vars, nil
}

func importCompose(s Source, docs []*doc, o Options, r *report) []*made {
	if len(docs) > 1 {
		r.at(Refused, docs[1], nil, "a second document begins: docker compose config makes one of several")
		return nil
	}
	c := &composer{doc: docs[0], source: s, opts: o, report: r, secrets: map[string]map[string]string{}, names: map[string]string{}, wanted: map[string][]string{}, taken: map[string]string{}}
	if !c.load() {
		return nil
	}
	return c.make()
}

// load fills project, and says whether it could.
func (c *composer) load() bool {
	root := c.doc.root
	if root.kind != mappingKind {
		c.report.at(Refused, c.doc, nil, "is no mapping: a compose file has services")
		return false
	}
	if n := root.child("include"); !n.empty() {
		c.report.at(Refused, c.doc, []string{"include"}, "names other files: docker compose config puts them into one")
	}
	if root.child("services").empty() {
		switch {
		case !root.child("include").empty(): // it has been said
		case beforeServices(root):
			c.report.at(Refused, c.doc, nil, "has no services: this is the first form of compose files, which docker compose does not read any more; write \"services:\" above them, and indent them")
		default:
			c.report.at(Refused, c.doc, nil, "has no services")
		}
		return false
	}
	services := root.child("services")
	// Its loader looks for circles in a time that grows with the square of their number.
	if n := len(services.keys); n > api.MaxServices {
		c.report.at(Refused, c.doc, []string{"services"}, "cannot be expressed: there are %d, and an application has at most %d", n, api.MaxServices)
		return false
	}
	others := false
	for i, k := range services.keys {
		if services.values[i].child("extends").str("file") != "" {
			others = true
			c.report.at(Refused, c.doc, []string{"services", k.name, "extends", "file"}, "names another file: docker compose config puts them into one")
		}
	}
	if others {
		return false
	}
	before := c.report.refused
	plain, _ := c.interpolate(root, nil).(map[string]any)
	if c.report.refused && !before || before && c.report.refused && plain == nil {
		return false
	}
	delete(plain, "version") // it means nothing, and the loader would complain in its own log
	defaultNetwork(plain)
	project, err := loadProject(c.source.Name, plain)
	if err != nil {
		c.refuse(err)
		return false
	}
	c.project = project
	return true
}

// beforeServices says whether a file has the form that compose files once had, with
// the services at the top.
func beforeServices(root *node) bool {
	for _, v := range root.values {
		if v.str("image") == "" && v.child("build").empty() {
			return false
		}
	}
	return root.kind == mappingKind && len(root.values) > 0
}

// defaultNetwork writes out the network that each project has, which services may name
// without any section of networks.
func defaultNetwork(plain map[string]any) {
	nets, is := plain["networks"].(map[string]any)
	if plain["networks"] == nil {
		nets, is = map[string]any{}, true
	}
	if _, there := nets["default"]; !is || there {
		return
	}
	nets["default"] = nil
	plain["networks"] = nets
}

// loadProject is compose-go's loader on what has been read, without any file but that.
func loadProject(file string, plain map[string]any) (p *types.Project, err error) {
	// Some of what is wrong in a file it finds out by a type assertion.
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, errors.New("it is not what the compose specification says")
		}
	}()
	details := types.ConfigDetails{WorkingDir: "/", ConfigFiles: []types.ConfigFile{{Filename: file, Config: plain}}, Environment: types.Mapping{}}
	p, err = loader.LoadWithContext(context.Background(), details, func(o *loader.Options) {
		o.SetProjectName("project", true)
		o.SkipInclude = true
		o.SkipNormalization = true
		o.SkipResolveEnvironment = true
		o.SkipResolveLabels = true
		o.ResolvePaths = false
	})
	if err != nil {
		return nil, fmt.Errorf("compose: %w", err)
	}
	return p, nil
}

var composePath = pattern.Lazy(`\b(?:services|volumes|networks|configs|secrets|name|jobs)(?:\.[-\w]+|\[\d+\])*`)

// refuse notes what compose-go complains about, at the path that it names.
func (c *composer) refuse(err error) {
	text := strings.TrimPrefix(err.Error(), "compose: ")
	text = strings.TrimPrefix(text, "validating "+c.source.Name+": ")
	text = strings.ReplaceAll(text, "$$", "$")
	var path []string
	if m := composePath().FindString(text); strings.Contains(m, ".") {
		for _, s := range strings.Split(strings.ReplaceAll(m, "[", ".["), ".") {
			if s != "" && strings.Trim(s, "0123456789") == "" {
				s = "[" + s + "]"
			}
			path = append(path, s)
		}
	} else if m := composeService().FindStringSubmatch(text); m != nil {
		path = []string{"services", m[1]}
	} else if m := composeCycle().FindStringSubmatch(text); m != nil {
		path = []string{"services", m[1], "depends_on"}
	} else {
		path = c.doc.find(text)
	}
	text = strings.TrimSuffix(composeNumber().ReplaceAllString(composeDecoding().ReplaceAllString(text, ""), "$1 is no number"), ": invalid compose project")
	if before, ok := strings.CutSuffix(text, " false schema"); ok {
		text = before + " is no field"
	}
	if i := slices.Index(path, "environment"); i >= 0 {
		path, text = path[:i+1], "environment is not written as variables and values"
	}
	c.report.at(Refused, c.doc, path, "is no valid compose file: %s", text)
}

// What compose-go says of a service, of a circle, and of how it came upon what is wrong.
var (
	composeService  = pattern.Lazy(`service "([^"]+)"`)
	composeCycle    = pattern.Lazy(`dependency cycle detected: ([-\w.]+)`)
	composeNumber   = pattern.Lazy(`error while interpolating \S+: failed to cast to expected type: strconv\.\w+: parsing ("[^"]*"): .*`)
	composeDecoding = pattern.Lazy(`decoding failed due to the following error\(s\):\s*'[^']*' (time: )?`)
)

// make turns the project into an application.
func (c *composer) make() []*made {
	name, from := appName(c.opts, c.doc.root.str("name"), c.source.Folder, baseName(c.source.Name))
	if name != from {
		c.report.at(Said, c.doc, []string{"name"}, "the application is called %s: %s is no name in Verge", name, quote(from))
	}
	c.app = &api.Application{Application: name, Services: map[string]*api.Service{}}
	m := &made{app: c.app, kind: Compose, from: []string{c.source.Name}, doc: c.doc, origins: map[string]origin{}}
	for _, name := range slices.Sorted(maps.Keys(c.project.DisabledServices)) {
		c.report.at(Lost, c.doc, []string{"services", name, "profiles"}, "the service is left out, as docker compose leaves it out where its profile is not asked for")
	}
	for name := range c.project.Jobs {
		c.report.at(Lost, c.doc, []string{"jobs", name}, "is not carried over")
	}
	given := names{}
	all := slices.Sorted(maps.Keys(c.project.Services))
	for _, own := range []bool{true, false} { // names that can stay are not taken by those that cannot
		for _, name := range all {
			if (label(name) == name) == own {
				c.names[name] = given.unique(name)
			}
		}
	}
	var unlimited []string
	for _, name := range all {
		path := []string{"services", name}
		if c.names[name] != name {
			c.report.at(Said, c.doc, path, "is called %s: others find it by that name", c.names[name])
		}
		s := c.service(name, c.project.Services[name])
		if finish(s, c.opts) {
			unlimited = append(unlimited, name)
		}
		c.app.Services[c.names[name]] = s
		m.origins[c.names[name]] = origin{c.doc, path}
	}
	c.reached()
	c.renamed()
	c.portless()
	limitNote(c.report, c.doc, unlimited, c.opts)
	c.report.leftovers(c.doc, c.doc.root, nil, composeTrie)
	if nets := c.doc.root.child("networks"); nets != nil && len(nets.keys) > 1 {
		c.report.at(Lost, c.doc, []string{"networks"}, "do not separate services: those of an application all reach each other")
	}
	return []*made{m}
}

// service turns one into a service of Verge.
func (c *composer) service(name string, s types.ServiceConfig) *api.Service {
	out := &api.Service{Runtime: api.Container}
	c.image(name, s, out)
	out.Command, out.Args = literals(s.Entrypoint), literals(s.Command)
	if len(out.Command) > 0 {
		out.Command, out.Args = append(out.Command, out.Args...), nil
	}
	for field, given := range map[string]bool{"command": s.Command != nil && len(s.Command) == 0, "entrypoint": s.Entrypoint != nil && len(s.Entrypoint) == 0} {
		if given {
			c.lost(name, "is empty, and so not carried over: the image's own is used", field)
		}
	}
	if s.User != "" {
		out.User = s.User
	}
	c.environment(name, s, out)
	c.ports(name, s, out)
	c.portVariables(name, out)
	c.resources(name, s, out)
	c.placement(name, s, out)
	c.health(name, s, out)
	c.restart(name, s, out)
	c.stop(name, s, out)
	c.storage(name, s, out)
	c.security(name, s, out)
	c.oneOff(name, s, out)
	c.rollout(name, s, out)
	c.relations(name, s)
	return out
}

func (c *composer) path(service string, more ...string) []string {
	return append([]string{"services", service}, more...)
}

func (c *composer) lost(service, text string, field ...string) {
	c.report.at(Lost, c.doc, c.path(service, field...), "%s", text)
}

func (c *composer) said(service, text string, field ...string) {
	c.report.at(Said, c.doc, c.path(service, field...), "%s", text)
}

// image is what a service is made of. One that is built is called as docker compose
// calls it, and brought to the workers by hand.
func (c *composer) image(name string, s types.ServiceConfig, out *api.Service) {
	out.Image = s.Image
	switch s.PullPolicy {
	case "always", "never":
		out.Pull = s.PullPolicy
	case "", "missing", "if_not_present":
	default:
		c.lost(name, "is not carried over: an image is pulled where it is missing", "pull_policy")
	}
	if s.Provider != nil {
		c.report.at(Refused, c.doc, c.path(name, "provider"), "cannot be expressed: the service is no container")
	}
	if s.Build == nil {
		return
	}
	if out.Image == "" {
		out.Image = label(c.app.Application) + "-" + label(name)
	}
	out.Pull = "never"
	c.lost(name, fmt.Sprintf("is not carried over: Verge builds no images. Build %s, and bring it to the workers (docker save %s | …, verge image load) or to a registry (then leave out pull: never)", out.Image, out.Image), "build")
}

// relations are what services have to do with each other beside their names.
func (c *composer) relations(name string, s types.ServiceConfig) {
	for _, dep := range slices.Sorted(maps.Keys(s.DependsOn)) {
		path := c.path(name, "depends_on", dep)
		if n := c.doc.root.child("services").child(name).child("depends_on"); n != nil && n.kind == listKind {
			path = path[:3]
			for i, v := range n.values {
				if v.text == dep {
					path = c.path(name, "depends_on", index(i))
				}
			}
		}
		c.report.at(Lost, c.doc, path, "the order of starting is not carried over: services start at once, and %s has to try again until %s is ready", name, dep)
		if s.DependsOn[dep].Condition != types.ServiceConditionCompletedSuccessfully {
			c.wants(name, dep)
		}
	}
	for i, l := range s.Links {
		of, _, _ := strings.Cut(l, ":")
		c.wants(name, of)
		if target, alias, ok := strings.Cut(l, ":"); ok && alias != target {
			c.lost(name, "the name "+quote(alias)+" is not carried over: it is reached as "+quote(c.names[target]), "links", index(i))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(s.Networks)) {
		if net := s.Networks[n]; net != nil {
			if len(net.Aliases) > 0 {
				c.lost(name, "are not carried over: it is reached as "+quote(c.names[name]), "networks", n, "aliases")
			}
			if net.Ipv4Address != "" || net.Ipv6Address != "" {
				c.lost(name, "a fixed address is not carried over: it is reached by its name", "networks", n)
			}
		}
	}
	if s.NetworkMode != "" && s.NetworkMode != "bridge" {
		c.lost(name, "is not carried over: an instance has a network of its own where its worker has the service network", "network_mode")
	}
	for field, host := range map[string]string{"hostname": s.Hostname, "container_name": s.ContainerName} {
		if host != "" && host != c.names[name] {
			c.lost(name, "is not carried over: others reach it as "+quote(c.names[name]), field)
		}
	}
}

// hostRE finds what may be a host in an address: after // or @, or before a port.
var hostRE = pattern.Lazy(`(?://|@)([-\w.]+)|([-\w.]+):\d`)

// hosts are what a variable may name as hosts: in addresses, or by its own name.
func hosts(variable, value string) (out []string) {
	for _, m := range hostRE().FindAllStringSubmatch(value, 100) {
		out = append(out, m[1]+m[2])
	}
	for _, word := range []string{"HOST", "ADDR", "SERVER"} {
		if strings.Contains(strings.ToUpper(variable), word) {
			return append(out, value)
		}
	}
	return out
}

// wants takes down that a service reaches another.
func (c *composer) wants(name, other string) {
	if p, ok := c.project.Services[other]; ok && len(p.Ports)+len(p.Expose) == 0 && !slices.Contains(c.wanted[other], name) {
		c.wanted[other] = append(c.wanted[other], name)
	}
}

// reached gives services the ports at which others name them.
func (c *composer) reached() {
	for _, name := range slices.Sorted(maps.Keys(c.project.Services)) {
		s := c.project.Services[name]
		texts := slices.Concat([]string(s.Entrypoint), []string(s.Command))
		for _, k := range slices.Sorted(maps.Keys(s.Environment)) {
			v := s.Environment[k]
			if v == nil {
				continue
			}
			texts = append(texts, *v)
			if of, is := strings.CutSuffix(k, "HOST"); is { // DB_HOST: db, DB_PORT: "5432"
				if port := s.Environment[of+"PORT"]; port != nil {
					texts = append(texts, "//"+*v+":"+*port)
				}
			}
		}
		for _, a := range addresses(texts...) {
			if to := c.app.Services[c.names[a.host]]; a.host != name && to != nil && to.Job == nil && reach(to, a.port) {
				c.said(a.host, fmt.Sprintf("gets the port %d over TCP, as %s names %s", a.port, name, a))
			}
		}
	}
}

// portless notes the services that others reach, and that have no ports in Verge: with
// Docker all ports of a container can be reached, whether they are written down or not.
func (c *composer) portless() {
	for name, s := range c.project.Services {
		for k, v := range s.Environment {
			if v == nil {
				continue
			}
			for _, other := range hosts(k, *v) {
				if other != name {
					c.wants(name, other)
				}
			}
		}
	}
	for _, by := range c.wanted {
		slices.Sort(by)
	}
	for _, other := range slices.Sorted(maps.Keys(c.wanted)) {
		if len(c.app.Services[c.names[other]].Ports) == 0 {
			c.report.at(Lost, c.doc, c.path(other), "has no ports, so that %s cannot reach it: add those that its image listens on (ports: [{name: tcp, number: 6379}])", list(c.wanted[other]))
		}
	}
}

// renamed notes what refers to a service by a name that it does not have in Verge.
func (c *composer) renamed() {
	for old, now := range c.names {
		if old == now {
			continue
		}
		word := regexp.MustCompile(`(^|[^-A-Za-z0-9_.])` + regexp.QuoteMeta(old) + `($|[^-A-Za-z0-9_])`)
		for name := range c.names {
			s := c.app.Services[c.names[name]]
			for k, v := range s.Env {
				if word.MatchString(v) {
					c.lost(name, k+" refers to "+quote(old)+", which is called "+now, c.envPath(name, k)...)
				}
			}
			if slices.ContainsFunc(slices.Concat(s.Command, s.Args), word.MatchString) {
				c.lost(name, "refers to "+quote(old)+", which is called "+now, "command")
			}
		}
	}
}
