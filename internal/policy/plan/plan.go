package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Bounds of a plan.
const (
	maxFields = 100
	maxText   = 80
	// maxDecisions bounds the decisions about instances; most are alike.
	maxDecisions = 50
)

// Services compares two descriptors, either of which may be nil, by name.
func Services(old, next *api.Application) []apiv1.ServicePlan {
	names := map[string]bool{}
	of := func(a *api.Application, name string) *api.Service {
		if a == nil {
			return nil
		}
		return a.Services[name]
	}
	for _, a := range []*api.Application{old, next} {
		if a != nil {
			for name := range a.Services {
				names[name] = true
			}
		}
	}
	out := []apiv1.ServicePlan{}
	for name := range names {
		out = append(out, Service(name, of(old, name), of(next, name)))
	}
	slices.SortFunc(out, func(a, b apiv1.ServicePlan) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Service compares what a service was (nil: it was not there) with what it is to be
// (nil: it is not).
func Service(name string, old, next *api.Service) apiv1.ServicePlan {
	p := apiv1.ServicePlan{Name: name, Change: apiv1.ServiceUnchanged}
	if old != nil {
		p.From = old.Replicas.Min
	}
	if next != nil {
		p.To = next.Replicas.Min
	}
	switch {
	case old == nil && next == nil:
		return p
	case old == nil:
		p.Change = apiv1.ServiceAdded
		return p
	case next == nil:
		p.Change = apiv1.ServiceRemoved
		return p
	}
	p.Fields, p.Restarts = Fields(old, next), !old.SameProgram(next)
	scaled := func(f apiv1.FieldChange) bool {
		return f.Field == "replicas" || strings.HasPrefix(f.Field, "replicas.")
	}
	switch {
	case len(p.Fields) == 0:
	case !slices.ContainsFunc(p.Fields, func(f apiv1.FieldChange) bool { return !scaled(f) }):
		p.Change = apiv1.ServiceScaled
	default:
		p.Change = apiv1.ServiceChanged
	}
	return p
}

// Fields are those in which two services differ, by name: "command",
// "resources.cpu", "env.MODE".
func Fields(old, next *api.Service) []apiv1.FieldChange {
	a, b := map[string]string{}, map[string]string{}
	flatten("", tree(old), a)
	flatten("", tree(next), b)
	var out []apiv1.FieldChange
	for field, v := range a {
		if w, ok := b[field]; !ok || v != w {
			out = append(out, change(field, v, b))
		}
	}
	for field := range b {
		if _, ok := a[field]; !ok {
			out = append(out, change(field, "", b))
		}
	}
	slices.SortFunc(out, func(x, y apiv1.FieldChange) int { return cmp.Compare(x.Field, y.Field) })
	if extra := len(out) - maxFields; extra > 0 {
		out = append(out[:maxFields], apiv1.FieldChange{Field: "…", New: fmt.Sprintf("%d more fields", extra)})
	}
	return out
}

func change(field, old string, next map[string]string) apiv1.FieldChange {
	return apiv1.FieldChange{Field: cut(field), Old: shown(field, old), New: shown(field, next[field])}
}

// shown is a value as people may see it.
func shown(field, v string) string {
	top, _, _ := strings.Cut(field, ".")
	switch {
	case v == "":
		return ""
	case top == "env":
		return "(not shown)"
	case top == "files" && strings.HasSuffix(field, ".content"):
		return fmt.Sprintf("(%d bytes)", len(v))
	}
	return cut(v)
}

func cut(s string) string {
	if r := []rune(s); len(r) > maxText {
		return string(r[:maxText]) + "…"
	}
	return s
}

// tree is a service as in its descriptor.
func tree(s *api.Service) any {
	var v any
	if data, err := json.Marshal(s); err == nil {
		_ = json.Unmarshal(data, &v) // it was written just now
	}
	return v
}

// flatten writes the leaves of a tree into out, by path. A list of plain values is one leaf.
func flatten(path string, v any, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 && path != "" {
			out[path] = "{}"
		}
		for k, e := range v {
			at := k
			if path != "" {
				at = path + "." + k
			}
			flatten(at, e, out)
		}
	case []any:
		if !slices.ContainsFunc(v, func(e any) bool { _, deep := e.(map[string]any); return deep }) {
			text, _ := json.Marshal(v) // what was decoded can be encoded
			out[path] = string(text)
			return
		}
		for n, e := range v {
			flatten(path+"["+strconv.Itoa(n)+"]", e, out)
		}
	case string:
		out[path] = v
	case float64:
		out[path] = strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		out[path] = strconv.FormatBool(v)
	case nil:
	}
}

// Close sorts and summarises a plan once all instances are in it.
func Close(p *apiv1.Plan) {
	slices.SortFunc(p.Instances, func(a, b rpc.InstancePlan) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(ordinal(a.ID), ordinal(b.ID)))
	})
	if p.Instances == nil {
		p.Instances = []rpc.InstancePlan{}
	}
	by := map[string]*tally{}
	var all tally
	decisions := 0
	for n := range p.Instances {
		i := &p.Instances[n]
		if by[i.Service] == nil {
			by[i.Service] = &tally{}
		}
		by[i.Service].add(i.Action)
		all.add(i.Action)
		if len(i.Decisions) > 0 {
			if decisions++; decisions > maxDecisions {
				i.Decisions = nil
			}
		}
	}
	p.Starts, p.Restarts, p.Moves, p.Stops, p.Waits = all.start, all.restart+all.move, all.move, all.stop, all.wait
	p.Placed = p.Waits == 0
	for n := range p.Services {
		s := &p.Services[n]
		t := by[s.Name]
		if t == nil {
			t = &tally{}
		}
		s.Effect = t.words(s.Change)
	}
}

func ordinal(id string) int {
	n, _ := strconv.Atoi(id[strings.LastIndexByte(id, '.')+1:])
	return n
}

// tally counts instances by what happens to them.
type tally struct{ keep, start, restart, move, stop, later, wait int }

func (t *tally) add(action string) {
	switch action {
	case rpc.PlanKeep:
		t.keep++
	case rpc.PlanStart:
		t.start++
	case rpc.PlanRestart:
		t.restart++
	case rpc.PlanMove:
		t.move++
	case rpc.PlanStop:
		t.stop++
	case rpc.PlanLater:
		t.later++
	case rpc.PlanWait:
		t.wait++
	}
}

// words is "2 instances restart, 1 starts", or "in place" if no instance is touched.
func (t *tally) words(change string) string {
	var all []string
	say := func(n int, one, many string) {
		if n == 0 {
			return
		}
		what := many
		if n == 1 {
			what = one
		}
		if len(all) > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, what))
			return
		}
		noun := "instances"
		if n == 1 {
			noun = "instance"
		}
		all = append(all, fmt.Sprintf("%d %s %s", n, noun, what))
	}
	say(t.restart, "restarts", "restart")
	say(t.move, "moves", "move")
	say(t.start, "starts", "start")
	say(t.stop, "stops", "stop")
	say(t.later, "starts later", "start later")
	say(t.wait, "waits", "wait")
	switch {
	case len(all) > 0:
		return strings.Join(all, ", ")
	case change == apiv1.ServiceUnchanged:
		return "nothing"
	case t.keep > 0:
		return "in place"
	}
	return "no instance"
}
