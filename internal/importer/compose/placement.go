package compose

import (
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// placement converts the number of instances and where they may run.
func (c *converter) placement(name string, s types.ServiceConfig, out *api.Service) {
	n := s.GetScale()
	if n != 1 {
		out.Replicas = api.Replicas{Min: n, Max: n}
	}
	if n == 0 {
		out.Replicas = draft.NoReplicas
	}
	if s.Platform != "" {
		os, arch, _ := strings.Cut(s.Platform, "/")
		arch, _, _ = strings.Cut(arch, "/")
		switch arch = draft.Architecture(arch); {
		case os == "wasi" || os == "wasip1":
			c.report.At(report.Refused, c.doc, c.path(name, "platform"),
				"cannot be expressed: what is made for %s is not a container; a module of WebAssembly is runtime: "+
					"wasm in a descriptor, with the object that it is", source.Quote(s.Platform))
		case os == "windows":
			c.report.At(report.Refused, c.doc, c.path(name, "platform"),
				"cannot be expressed: Verge runs no containers of Windows")
		case os != "linux" || arch == "":
			c.lost(name, source.Quote(s.Platform)+" is not carried over: it is not a platform of Verge", "platform")
		default:
			out.Architecture = []string{arch}
		}
	}
	d := s.Deploy
	if d == nil {
		return
	}
	if d.Mode != "" && d.Mode != "replicated" && d.Mode != "replicated-job" {
		c.lost(name,
			source.Quote(d.Mode)+" is not carried over: Verge has no service with an instance on every worker; "+
				"write replicas",
			"deploy", "mode")
	}
	if d.Placement.MaxReplicas == 1 {
		out.AntiAffinity.Service = []string{c.names[name]}
	} else if d.Placement.MaxReplicas > 1 {
		c.lost(name, "is not carried over: at most one instance on a worker can be asked for", "deploy", "placement",
			"max_replicas_per_node")
	}
	for i := range d.Placement.Preferences {
		c.lost(name, "is not carried over: instances are spread over workers anyway", "deploy", "placement",
			"preferences",
			source.Index(i))
	}
	for i, text := range d.Placement.Constraints {
		if !constraint(text, out) {
			c.lost(name,
				source.Quote(text)+" is not carried over: only labels (node.labels.…) and the architecture are "+
					"known of a worker",
				"deploy", "placement", "constraints", source.Index(i))
		}
	}
}

// constraint adds a constraint of swarm: "node.labels.zone == east".
func constraint(text string, out *api.Service) bool {
	op := "=="
	k, v, ok := strings.Cut(text, op)
	if !ok {
		op = "!="
		k, v, ok = strings.Cut(text, op)
	}
	k, v = strings.TrimSpace(k), strings.TrimSpace(v)
	if !ok {
		return false
	}
	if key, isLabel := strings.CutPrefix(k, "node.labels."); isLabel && api.LabelProblem(key, v) == "" {
		to := &out.Affinity.Labels
		if op == "!=" {
			to = &out.AntiAffinity.Labels
		}
		if _, twice := (*to)[key]; twice {
			return false
		}
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[key] = v
		return true
	}
	if k == "node.platform.arch" && op == "==" && draft.Architecture(v) != "" && len(out.Architecture) == 0 {
		out.Architecture = []string{draft.Architecture(v)}
		return true
	}
	return k == "node.platform.os" && op == "==" && v == "linux"
}
