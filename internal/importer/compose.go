package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	// compose-go is what docker compose itself reads files with: their short forms, their
	// schema and their rules are its business.
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
	joined  *joiner // nil: the file names no others
	own     string  // name of the project that the file gives it
	// beside are the variables of the file .env beside it, and used those of them that are
	// referred to.
	beside map[string]string
	used   map[string]bool
	// derived are those of them that have what is secret in their values, and blank those that
	// refer to what nothing sets, with its name.
	derived map[string]bool
	blank   map[string]string
	// secrets are the variables of services whose values are not in the file, by service
	// and variable: names of secrets. secretNames are those by what they are made of.
	secrets      map[string]map[string]string
	secretNames  map[string]string
	secretLabels names
	unfit        map[string]string   // files that cannot be carried over: why
	names        map[string]string   // of services, in Verge
	called       map[string]string   // services by each name that they have with Docker
	wanted       map[string][]string // services that others reach, by whom
	taken        map[string]string   // published ports, by whom
	app          *api.Application
}

func importCompose(s Source, docs []*doc, o Options, r *report) []*made {
	if len(docs) > 1 {
		r.at(Refused, docs[1], nil, "a second document begins: docker compose config makes one of several")
		return nil
	}
	c := &composer{doc: docs[0], source: s, opts: o, report: r, used: map[string]bool{}, secrets: map[string]map[string]string{}, secretNames: map[string]string{},
		unfit: map[string]string{}, names: map[string]string{}, called: map[string]string{}, wanted: map[string][]string{}, taken: map[string]string{}}
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
	if !c.join() {
		return false
	}
	root = c.doc.root
	if root.child("services").empty() {
		switch {
		case beforeServices(root):
			c.report.at(Refused, c.doc, nil, "has no services: this is the first form of compose files, which docker compose does not read any more; write \"services:\" above them, and indent them")
		default:
			c.report.at(Refused, c.doc, nil, "has no services")
		}
		return false
	}
	if c.doc.values > maxComposeValues {
		c.report.at(Refused, c.doc, nil, "has more than %d values, once its aliases are followed: divide it", maxComposeValues)
		return false
	}
	services := root.child("services")
	// Its loader looks for circles in a time that grows with the square of their number.
	if n := len(services.keys); n > api.MaxServices {
		c.report.at(Refused, c.doc, []string{"services"}, "cannot be expressed: there are %d, and an application has at most %d", n, api.MaxServices)
		return false
	}
	before := c.report.refused
	c.besides()
	if c.joined != nil && c.opts.Variables == nil {
		vars := c.joined.env
		maps.Copy(vars, c.beside) // these count before
		derived := c.joined.derived
		maps.Copy(derived, c.derived)
		c.beside, c.derived = vars, derived
	}
	if secrets := root.child("secrets"); secrets != nil {
		for _, k := range secrets.keys { // their names are not for variables
			c.secretNames["secrets."+k.name] = c.secretLabels.unique(k.name)
		}
	}
	plain, _ := c.interpolate(root, nil).(map[string]any)
	if c.report.overspent() || c.report.refused && !before || before && c.report.refused && plain == nil {
		return false
	}
	if name, is := plain["name"].(string); is {
		c.own = strings.ReplaceAll(name, "$$", "$")
	}
	if !c.bounded(plain) {
		return false
	}
	delete(plain, "version") // it means nothing, and the loader would complain in its own log
	defaultNetwork(plain)
	given := copied(plain).(map[string]any) // the loader changes what it is given
	project, err := loadProject(c.source.Name, plain, c.profiles())
	if err != nil {
		c.refuse(err, given)
		return false
	}
	c.project = project
	return c.settle()
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

// profiles are those asked for, or else those that the file beside names.
func (c *composer) profiles() []string {
	if said := c.beside["COMPOSE_PROFILES"]; len(c.opts.Profiles) == 0 && said != "" {
		c.used["COMPOSE_PROFILES"] = true
		return strings.Split(said, ",")
	}
	return c.opts.Profiles
}

// loadProject is compose-go's loader on what has been read, without any file but that.
func loadProject(file string, plain map[string]any, profiles []string) (p *types.Project, err error) {
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
		o.Profiles = profiles
	})
	if err != nil {
		return nil, fmt.Errorf("compose: %w", err)
	}
	return p, nil
}

var composePath = pattern.Lazy(`\b(?:services|volumes|networks|configs|secrets|name|jobs)(?:\.[-\w]+|\[\d+\])*`)

// refuse notes what compose-go complains about in what it was given, at the path that it
// names, or at what it does not complain without.
func (c *composer) refuse(err error, given map[string]any) {
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
	} else if m := composeCircular().FindStringSubmatch(text); m != nil {
		path, text = []string{"services", m[1], "extends"}, "it extends itself: "+strings.Join(strings.Fields(text), " ")
	} else if m := composeUnknown().FindStringSubmatch(text); m != nil {
		text = "no field at the top is called " + m[1]
		if i := slices.IndexFunc(c.doc.root.keys, func(k key) bool { return strings.Contains(m[1], "'"+k.name+"'") }); i >= 0 {
			path = []string{c.doc.root.keys[i].name}
		}
	} else if path = c.culprit(given, err); path == nil {
		path = c.doc.find(text)
	} else if found := c.doc.find(text); len(found) > len(path) && slices.Equal(found[:len(path)], path) {
		path = found
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
	composeUnknown  = pattern.Lazy(`^\s*additional properties (.*) not allowed`)
	composeCircular = pattern.Lazy(`^Circular reference:\s+(\S+) in`)
	composeCycle    = pattern.Lazy(`dependency cycle detected: ([-\w.]+)`)
	composeNumber   = pattern.Lazy(`error while interpolating \S+: failed to cast to expected type: strconv\.\w+: parsing ("[^"]*"): .*`)
	composeDecoding = pattern.Lazy(`decoding failed due to the following error\(s\):\s*'[^']*' (time: )?`)
)

// make turns the project into an application.
func (c *composer) make() []*made {
	own := c.own
	if said := c.beside["COMPOSE_PROJECT_NAME"]; said != "" { // which counts before, as with docker compose
		own, c.used["COMPOSE_PROJECT_NAME"] = said, true
	}
	name, from := appName(c.opts, own, c.source.Folder, baseName(c.source.Name))
	if name != from {
		c.report.at(Said, c.doc, []string{"name"}, "the application is called %s: %s is no name in Verge", name, quote(from))
	}
	c.app = &api.Application{Application: name, Services: map[string]*api.Service{}}
	m := &made{app: c.app, kind: Compose, from: []string{c.source.Name}, doc: c.doc, origins: map[string]origin{}}
	for _, name := range slices.Sorted(maps.Keys(c.project.DisabledServices)) {
		c.report.at(Lost, c.doc, []string{"services", name, "profiles"}, "the service is left out, as docker compose leaves it out where its profile is not asked for (--profile %s)", strings.Join(c.project.DisabledServices[name].Profiles, ", or --profile "))
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
	c.nicknames(all)
	var unlimited []string
	for _, name := range all {
		path := []string{"services", name}
		if c.names[name] != name {
			c.report.at(Said, c.doc, path, "is called %s: others find it by that name", c.names[name])
		}
		s := c.service(name, c.project.Services[name])
		if !c.report.spend(weight(s)) {
			c.report.tooMuch(c.doc, path)
			return nil
		}
		if finish(s, c.opts) {
			unlimited = append(unlimited, name)
		}
		c.app.Services[c.names[name]] = s
		m.origins[c.names[name]] = origin{c.doc, path}
	}
	c.reached()
	c.readdress()
	c.portless()
	c.begin()
	c.usedBeside()
	limitNote(c.report, c.doc, unlimited, c.opts)
	c.report.leftovers(c.doc, c.doc.root, nil, composeTrie())
	c.drivers("volumes", "is not carried over: a volume of Verge is a directory of the worker", "local")
	c.drivers("networks", "is not carried over: the service network of Verge has one kind", "bridge", "overlay", "default")
	if nets := c.doc.root.child("networks"); nets != nil && len(nets.keys) > 1 {
		c.report.at(Lost, c.doc, []string{"networks"}, "do not separate services: those of an application all reach each other")
	}
	return []*made{m}
}

// drivers notes those of volumes or networks that are not Docker's own.
func (c *composer) drivers(section, why string, own ...string) {
	n := c.doc.root.child(section)
	if n == nil {
		return
	}
	for i, k := range n.keys {
		if d := n.values[i].str("driver"); d != "" && !slices.Contains(own, d) {
			c.report.at(Lost, c.doc, []string{section, k.name, "driver"}, "%s", why)
		}
	}
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
