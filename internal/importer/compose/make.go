package compose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// make turns the project into an application.
func (c *converter) make() []*draft.Draft {
	own := c.own
	if said := c.beside["COMPOSE_PROJECT_NAME"]; said != "" { // which takes precedence, as in docker compose
		own, c.used["COMPOSE_PROJECT_NAME"] = said, true
	}
	name, from := draft.AppName(c.opts, own, c.source.Folder, draft.BaseName(c.source.Name))
	if name != from {
		c.report.At(report.Said, c.doc, []string{"name"}, "the application is called %s: %s is not a name in Verge",
			name,
			source.Quote(from))
	}
	c.app = &api.Application{Application: name, Services: map[string]*api.Service{}}
	m := &draft.Draft{App: c.app, Kind: draft.Compose, From: []string{c.source.Name}, Doc: c.doc,
		Origins: map[string]draft.Origin{}}
	for _, name := range slices.Sorted(maps.Keys(c.project.DisabledServices)) {
		c.report.At(report.Lost, c.doc, []string{"services", name, "profiles"},
			"the service is left out, as docker compose leaves it out where its profile is not asked for "+
				"(--profile %s)",
			strings.Join(c.project.DisabledServices[name].Profiles, ", or --profile "))
	}
	for name := range c.project.Jobs {
		c.report.At(report.Lost, c.doc, []string{"jobs", name}, "is not carried over")
	}
	given := draft.Names{}
	all := slices.Sorted(maps.Keys(c.project.Services))
	for _, own := range []bool{true, false} { // names that can stay go first
		for _, name := range all {
			if (draft.Label(name) == name) == own {
				c.names[name] = given.Unique(name)
			}
		}
	}
	c.nicknames(all)
	var unlimited []string
	for _, name := range all {
		path := []string{"services", name}
		if c.names[name] != name {
			c.report.At(report.Said, c.doc, path, "is called %s: others find it by that name", c.names[name])
		}
		s := c.service(name, c.project.Services[name])
		if !c.report.Spend(draft.Weight(s)) {
			c.report.TooMuch(c.doc, path)
			return nil
		}
		if draft.Finish(s, c.opts) {
			unlimited = append(unlimited, name)
		}
		c.app.Services[c.names[name]] = s
		m.Origins[c.names[name]] = draft.Origin{Doc: c.doc, Path: path}
	}
	c.reached()
	c.readdress()
	c.portless()
	c.begin()
	c.usedBeside()
	draft.LimitNote(c.report, c.doc, unlimited, c.opts)
	c.report.Leftovers(c.doc, c.doc.Root, nil, fieldTrie())
	c.drivers("volumes", "is not carried over: a volume of Verge is a directory of the worker", "local")
	c.drivers("networks", "is not carried over: the service network of Verge has one kind", "bridge", "overlay",
		"default")
	if nets := c.doc.Root.Child("networks"); nets != nil && len(nets.Keys) > 1 {
		c.report.At(report.Lost, c.doc, []string{"networks"},
			"do not separate services: those of an application all reach each other")
	}
	return []*draft.Draft{m}
}

// drivers notes drivers of volumes or networks other than Docker's own.
func (c *converter) drivers(section, why string, own ...string) {
	n := c.doc.Root.Child(section)
	if n == nil {
		return
	}
	for i, k := range n.Keys {
		if d := n.Values[i].Str("driver"); d != "" && !slices.Contains(own, d) {
			c.report.At(report.Lost, c.doc, []string{section, k.Name, "driver"}, "%s", why)
		}
	}
}

// service converts a service.
func (c *converter) service(name string, s types.ServiceConfig) *api.Service {
	out := &api.Service{Runtime: api.Container}
	c.image(name, s, out)
	out.Command, out.Args = draft.Literals(s.Entrypoint), draft.Literals(s.Command)
	if len(out.Command) > 0 {
		out.Command, out.Args = append(out.Command, out.Args...), nil
	}
	for field, given := range map[string]bool{"command": s.Command != nil && len(s.Command) == 0,
		"entrypoint": s.Entrypoint != nil && len(s.Entrypoint) == 0} {
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

// image converts the image. One that is built gets the name that docker compose uses, and is
// brought to the workers by hand.
func (c *converter) image(name string, s types.ServiceConfig, out *api.Service) {
	out.Image = s.Image
	switch s.PullPolicy {
	case "always", "never":
		out.Pull = s.PullPolicy
	case "", "missing", "if_not_present":
	default:
		c.lost(name, "is not carried over: an image is pulled where it is missing", "pull_policy")
	}
	if s.Provider != nil {
		c.report.At(report.Refused, c.doc, c.path(name, "provider"),
			"cannot be expressed: the service is not a container")
	}
	if s.Build == nil {
		return
	}
	if out.Image == "" {
		out.Image = draft.Label(c.app.Application) + "-" + draft.Label(name)
	}
	out.Pull = "never"
	c.lost(name,
		fmt.Sprintf("is not carried over: Verge builds no images. Build %s, and bring it to the workers (docker "+
			"save %s | …, verge image load) or to a registry (then leave out pull: never)", out.Image, out.Image), "build")
}
