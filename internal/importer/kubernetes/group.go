package kubernetes

import (
	"cmp"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/k8s"
)

// converter makes applications of manifests: one for each namespace.
type converter struct {
	opts    draft.Options
	report  *report.Report
	objects []*manifest.Object
	byName  map[[3]string]*manifest.Object // by kind, namespace and name
}

// group has the objects of one namespace, with --namespace those of all.
type group struct {
	*converter
	namespace  string
	namespaces map[string]bool // that full names of its Services may have
	objects    []*manifest.Object
	configs    map[string]*configMap
	secrets    map[string]*secretObject
	claims     map[string]*claim
	workloads  []*workload
	services   []*service
	app        *api.Application
	taken      map[string]string // published ports
	given      draft.Names       // of services
	claimed    map[string]string // hosts and paths, by whom
	// known are the names in Verge of Services and pods.
	known map[string]string
	// called are the addresses in Verge of Services (web:80), where they differ.
	called map[string]string
	// linked are the variables that Kubernetes would set for Services.
	linked map[string]string
	// secretNames are the names in Verge of keys of secrets.
	secretNames  map[string]string
	secretLabels draft.Names
}

func newGroup(k *converter, ns string, objects []*manifest.Object) *group {
	g := &group{converter: k, namespace: ns, namespaces: map[string]bool{}, objects: objects, configs: map[string]*configMap{},
		secrets: map[string]*secretObject{}, claims: map[string]*claim{},
		taken: map[string]string{}, claimed: map[string]string{}, known: map[string]string{},
		secretNames: map[string]string{}}
	for _, o := range objects {
		ns := o.Meta.Namespace
		g.namespaces[cmp.Or(ns, "default")], g.namespaces[cmp.Or(ns, k.opts.Namespace, "default")] = true, true
	}
	return g
}

func (g *group) lost(o *manifest.Object, path []string, format string, args ...any) {
	g.report.At(report.Lost, o.Doc, path, format, args...)
}

func (g *group) said(o *manifest.Object, path []string, format string, args ...any) {
	g.report.At(report.Said, o.Doc, path, format, args...)
}

func (g *group) refuse(o *manifest.Object, path []string, format string, args ...any) {
	g.report.At(report.Refused, o.Doc, path, format, args...)
}

// configMap and secretObject are the sources of values for pods.
type configMap struct {
	object *manifest.Object
	spec   k8s.ConfigMap
	used   bool
}

type secretObject struct {
	object *manifest.Object
	keys   []string
	kind   k8s.SecretType
}

type claim struct {
	object *manifest.Object
	spec   k8s.PersistentVolumeClaimSpec
	users  []string
}

// envValue is the value of a variable: a text, in which open and shut enclose what Verge
// replaces, or a secret.
type envValue struct {
	text   string
	secret string
}

func (c *container) set(name string, v envValue, at []string) {
	if _, again := c.env[name]; !again {
		c.order = append(c.order, name)
	}
	c.env[name], c.where[name] = v, at
}

// service is a Service, and the workload that it leads to.
type service struct {
	object *manifest.Object
	spec   k8s.ServiceSpec
	to     *workload
}

// deref returns what p points to, or the zero value.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// note reports a loss if it matters, and else a remark.
func (g *group) note(matters bool, o *manifest.Object, path []string, format string, args ...any) {
	level := report.Said
	if matters {
		level = report.Lost
	}
	g.report.At(level, o.Doc, path, format, args...)
}

// workload is what runs pods.
type workload struct {
	object *manifest.Object
	spec   manifest.WorkloadSpec
	pod    *k8s.PodSpec
	// base is the path of spec, path that of the specification of its pods, which have labels.
	// cron is its schedule.
	base       []string
	cron       *manifest.CronSpec
	path       []string
	labels     map[string]string
	containers []*container
	services   []*service
}

// container is a container of a workload, which becomes a service.
type container struct {
	*k8s.Container
	workload *workload
	path     []string
	name     string // of its service in Verge
	ports    draft.Ports
	byName   map[string]int // numbers of its ports by the names of the source
	env      map[string]envValue
	order    []string // of its variables
	where    map[string][]string
}
