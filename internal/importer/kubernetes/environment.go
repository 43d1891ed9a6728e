package kubernetes

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// Marks around the name of a variable of Verge. No text of Kubernetes contains them.
const (
	open = "\x00"
	shut = "\x01"
)

// marked returns a variable of Verge for a text.
func marked(name string) string { return open + name + shut }

var markRE = pattern.Lazy(open + "([A-Z_]+)" + shut)

// written returns a text as a descriptor has it.
func written(text string) string {
	text = strings.ReplaceAll(draft.Literal(text), "$"+open, "$$"+open)
	return markRE().ReplaceAllString(text, "$${$1}")
}

func (g *group) newContainer(w *workload, c *k8s.Container, path []string) *container {
	out := &container{Container: c, workload: w, path: path, byName: map[string]int{}, env: map[string]envValue{},
		where: map[string][]string{}}
	for i, p := range c.Ports {
		at := source.Extend(path, "ports", source.Index(i))
		if p.ContainerPort < 1 || p.ContainerPort > 65535 {
			g.refuse(w.object, at, "Kubernetes would refuse it: %d is not a port", p.ContainerPort)
			continue
		}
		var protocol string
		switch p.Protocol {
		case "", k8s.ProtocolTCP:
			protocol = protocolOfName(p.Name)
		case k8s.ProtocolUDP:
			protocol = api.UDP
		case k8s.ProtocolSCTP:
			g.lost(w.object, source.Extend(at, "protocol"), "is not carried over: SCTP is not a protocol of Verge")
			continue
		}
		out.ports.Add(p.Name, int(p.ContainerPort), protocol)
		if p.Name != "" {
			out.byName[p.Name] = int(p.ContainerPort)
		}
	}
	return out
}

// protocolOfName returns the protocol that a port's name implies: http, http-web; "" for none.
// A port named grpc may also speak TLS or something else, which a port for grpc would not pass
// on, so grpc implies nothing.
func protocolOfName(name string) string {
	if first, _, _ := strings.Cut(name, "-"); first == "http" {
		return "http"
	}
	return ""
}

// environment converts the environment of a container: first envFrom, then its own variables,
// each of which may refer to those above it.
func (g *group) environment(w *workload, c *container, out *api.Service) {
	g.link(w, c)
	for i, from := range c.EnvFrom {
		at := source.Extend(c.path, "envFrom", source.Index(i))
		if g.envFrom(w, c, at, from); g.report.Overspent() {
			g.report.TooMuch(w.object.Doc, at)
			return
		}
	}
	for i, e := range c.Env {
		at := source.Extend(c.path, "env", source.Index(i))
		switch {
		case g.report.Overspent():
			g.report.TooMuch(w.object.Doc, source.Extend(c.path, "env", source.Index(max(i-1, 0))))
			return
		case e.Name == "":
			g.refuse(w.object, at, "Kubernetes would refuse it: the variable has no name")
		case e.ValueFrom != nil && e.Value != "":
			g.refuse(w.object, at, "Kubernetes would refuse it: it has both value and valueFrom")
		case e.ValueFrom != nil:
			if v, ok := g.valueFrom(w, c, source.Extend(at, "valueFrom"), e.ValueFrom); ok {
				c.set(e.Name, v, at)
			}
		default:
			text, secrets := c.expand(e.Value, g.report.Spend)
			if len(secrets) > 0 {
				name := g.secretLabels.Unique(c.name + "-" + e.Name)
				c.set(e.Name, envValue{secret: name}, at)
				g.said(w.object, source.Extend(at, "value"),
					"%s becomes the secret %s, as it has the secret %s in it: verge secret set %s --from-file FILE", e.Name, name,
					secrets[0], name)
				continue
			}
			c.set(e.Name, envValue{text: text}, at)
			if draft.SecretValue(e.Name, e.Value) && e.Value != "" {
				g.said(w.object, source.Extend(at, "value"), "%s stays in the descriptor as it is: env_secrets would keep it out",
					e.Name)
			}
		}
	}
	if g.report.Overspent() {
		g.report.TooMuch(w.object.Doc, source.Extend(c.path, "env"))
		return
	}
	for _, name := range c.order {
		v := c.env[name]
		if v.secret != "" {
			if out.EnvSecrets == nil {
				out.EnvSecrets = map[string]string{}
			}
			out.EnvSecrets[name] = v.secret
			continue
		}
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env[name] = written(g.names(w, c.where[name], v.text))
	}
	draft.ValidEnv(g.report, w.object.Doc, out, func(v string) []string { return g.envPath(c, v) })
}

func (g *group) envPath(c *container, name string) []string {
	if at := c.where[name]; at != nil {
		return at
	}
	return source.Extend(c.path, "env")
}

// expand replaces $(NAME) by the variables so far, as Kubernetes does: $$ is a dollar, and
// unknown names stay. It also returns the secrets that it found. If spend refuses, there is no
// text.
func (c *container) expand(s string, spend func(int) bool) (text string, secrets []string) {
	s = strings.NewReplacer(open, "", shut, "").Replace(s)
	var b strings.Builder
	last := strings.LastIndexByte(s, ')')
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch {
		case s[i] == '$':
			b.WriteByte('$')
		case s[i] == '(' && i < last:
			end := strings.IndexByte(s[i:], ')')
			name := s[i+1 : i+end]
			v, known := c.env[name]
			switch {
			case known && v.secret != "":
				secrets = append(secrets, v.secret)
				b.WriteString("$(" + name + ")")
			case known && !spend(len(v.text)):
				return "", nil
			case known:
				b.WriteString(v.text)
			default:
				b.WriteString("$(" + name + ")")
			}
			i += end
		default:
			b.WriteByte('$')
			b.WriteByte(s[i])
		}
	}
	return b.String(), secrets
}

// words converts command or args.
func (g *group) words(w *workload, c *container, field string, list []string) (out []string) {
	for i, s := range list {
		at := source.Extend(c.path, field, source.Index(i))
		text, secrets := c.expand(s, g.report.Spend)
		if g.report.Overspent() {
			g.report.TooMuch(w.object.Doc, at)
			return nil
		}
		if len(secrets) > 0 {
			g.lost(w.object, at, "the value of the secret %s is not carried over into it, where everybody sees it who can "+
				"list processes: let the program read the variable", secrets[0])
		}
		out = append(out, written(g.names(w, at, text)))
	}
	return out
}

// envFrom adds all of a ConfigMap or a Secret.
func (g *group) envFrom(w *workload, c *container, at []string, from k8s.EnvFromSource) {
	switch {
	case from.ConfigMapRef != nil:
		path := source.Extend(at, "configMapRef", "name")
		m := g.configs[from.ConfigMapRef.Name]
		if m == nil {
			g.note(!deref(from.ConfigMapRef.Optional), w.object, path,
				"the ConfigMap %s is not among what is imported: its variables are not carried over", from.ConfigMapRef.Name)
			return
		}
		m.used = true
		for _, k := range slices.Sorted(maps.Keys(m.spec.Data)) {
			if !g.report.Spend(len(m.spec.Data[k]) + report.PerVariable) {
				return
			}
			c.set(from.Prefix+k, envValue{text: strings.NewReplacer(open, "", shut, "").Replace(m.spec.Data[k])}, path)
		}
	case from.SecretRef != nil:
		path := source.Extend(at, "secretRef", "name")
		s := g.secrets[from.SecretRef.Name]
		if s == nil {
			g.note(!deref(from.SecretRef.Optional), w.object, path,
				"the Secret %s is not among what is imported, so that the names of its variables are not known: "+
					"write them into env_secrets", from.SecretRef.Name)
			return
		}
		for _, k := range s.keys {
			if !g.report.Spend(report.PerVariable) {
				return
			}
			c.set(from.Prefix+k, envValue{secret: g.secretOf(w, path, s.object.Meta.Name, k)}, path)
		}
	}
}

// secretOf returns the name in Verge of a key of a Secret, and reports it once.
func (g *group) secretOf(w *workload, at []string, name, key string) string {
	id := name + "/" + key
	if known := g.secretNames[id]; known != "" {
		return known
	}
	out := g.secretLabels.Unique(name + "-" + key)
	g.secretNames[id] = out
	o, path, where := w.object, at, ""
	if s := g.secrets[name]; s != nil && slices.Contains(s.keys, key) {
		o, path = s.object, s.object.At("data", key)
		if s.object.Root.Child("data").Child(key) == nil {
			path = s.object.At("stringData", key)
		}
		where = ", whose value is in no descriptor"
	}
	g.said(o, path, "becomes the secret %s%s: verge secret set %s --from-file FILE", out, where, out)
	return out
}

// valueFrom returns a value from elsewhere; false if there is none.
func (g *group) valueFrom(w *workload, c *container, at []string, from *k8s.EnvVarSource) (v envValue, ok bool) {
	o := w.object
	switch {
	case from.ConfigMapKeyRef != nil:
		ref, path := from.ConfigMapKeyRef, source.Extend(at, "configMapKeyRef")
		m := g.configs[ref.Name]
		if m == nil {
			g.lost(o, path, "the ConfigMap %s is not among what is imported: the variable is left out", ref.Name)
			return v, false
		}
		m.used = true
		text, has := m.spec.Data[ref.Key]
		if !has {
			if ref.Optional == nil || !*ref.Optional {
				g.lost(o, path, "the ConfigMap %s has no key %s: the variable is left out", ref.Name, source.Quote(ref.Key))
			}
			return v, false
		}
		if !g.report.Spend(len(text)) {
			return v, false // which the caller reports
		}
		return envValue{text: strings.NewReplacer(open, "", shut, "").Replace(text)}, true
	case from.SecretKeyRef != nil:
		ref, path := from.SecretKeyRef, source.Extend(at, "secretKeyRef")
		s := g.secrets[ref.Name]
		if s != nil && !slices.Contains(s.keys, ref.Key) || s == nil && ref.Optional != nil && *ref.Optional {
			if s != nil && (ref.Optional == nil || !*ref.Optional) {
				g.lost(o, path, "the Secret %s has no key %s: the variable is left out", ref.Name, source.Quote(ref.Key))
			} else {
				g.lost(o, path, "is left out: it may be missing, and an instance of Verge waits for its secrets")
			}
			return v, false
		}
		return envValue{secret: g.secretOf(w, path, ref.Name, ref.Key)}, true
	case from.FieldRef != nil:
		return g.fieldRef(w, source.Extend(at, "fieldRef"), from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		return g.resourceRef(w, c, source.Extend(at, "resourceFieldRef"), from.ResourceFieldRef)
	}
	g.lost(o, at, "is not carried over: Verge has no such source of a value")
	return v, false
}

// fields are the variables in which an instance of Verge has these fields.
var fields = map[string]string{
	"metadata.name": "VERGE_INSTANCE", "metadata.uid": "VERGE_INSTANCE", "metadata.namespace": "VERGE_NAMESPACE",
	"spec.nodeName": "VERGE_WORKER",
	"metadata.labels['apps.kubernetes.io/pod-index']":                  "VERGE_ORDINAL",
	"metadata.annotations['batch.kubernetes.io/job-completion-index']": "VERGE_JOB_INDEX",
	"metadata.labels['batch.kubernetes.io/job-completion-index']":      "VERGE_JOB_INDEX",
}

func (g *group) fieldRef(w *workload, at []string, field string) (envValue, bool) {
	if name := fields[field]; name != "" && (name != "VERGE_JOB_INDEX" || strings.HasSuffix(w.object.Kind, "Job")) {
		if field == "metadata.name" && w.object.Kind == "StatefulSet" {
			g.said(w.object, at, "is the name of the instance, not %s-0", w.object.Meta.Name)
		}
		return envValue{text: marked(name)}, true
	}
	for prefix, of := range map[string]map[string]string{"metadata.labels['": w.labels,
		"metadata.annotations['": w.spec.Template.Annotations} {
		if key, ok := strings.CutPrefix(field, prefix); ok {
			if v, has := of[strings.TrimSuffix(key, "']")]; has {
				return envValue{text: v}, true
			}
		}
	}
	g.lost(w.object, at,
		"%s is not carried over: an instance of Verge does not know it of itself; the variable is left out",
		source.Quote(field))
	return envValue{}, false
}

func (g *group) resourceRef(w *workload, c *container, at []string, ref *k8s.ResourceFieldSelector) (envValue, bool) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	of := map[string]k8s.ResourceList{"limits": c.Resources.Limits, "requests": c.Resources.Requests}[kind]
	q, has := of[k8s.ResourceName(name)]
	if !has || ref.ContainerName != "" && ref.ContainerName != c.Name {
		g.lost(w.object, at, "%s is not carried over: the container does not say it; the variable is left out",
			source.Quote(ref.Resource))
		return envValue{}, false
	}
	by := 1.0
	if !ref.Divisor.IsZero() {
		by = ref.Divisor.AsApproximateFloat64()
	}
	return envValue{text: strconv.FormatFloat(math.Ceil(q.AsApproximateFloat64()/by-1e-9), 'f', -1, 64)}, true
}
