package importer

import (
	"maps"
	"slices"
	"strings"

	// The types of the core of Kubernetes say what its manifests may have. Those of its
	// other groups are a few fields around them, which are here: they would add more to
	// the program than they save.

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/k8s"
)

// versions are those of the groups in which Verge knows a kind.
var versions = map[string][]string{
	"/Pod": {"v1"}, "/Service": {"v1"}, "/ConfigMap": {"v1"}, "/Secret": {"v1"}, "/PersistentVolumeClaim": {"v1"}, "/ReplicationController": {"v1"},
	"apps/Deployment": {"v1", "v1beta2", "v1beta1"}, "extensions/Deployment": {"v1beta1"},
	"apps/DaemonSet": {"v1", "v1beta2"}, "extensions/DaemonSet": {"v1beta1"},
	"apps/ReplicaSet": {"v1", "v1beta2"}, "extensions/ReplicaSet": {"v1beta1"},
	"apps/StatefulSet": {"v1", "v1beta2", "v1beta1"},
	"batch/Job":        {"v1"}, "batch/CronJob": {"v1", "v1beta1"},
	"autoscaling/HorizontalPodAutoscaler": {"v2", "v1", "v2beta2", "v2beta1"},
	"networking.k8s.io/Ingress":           {"v1", "v1beta1"}, "extensions/Ingress": {"v1beta1"},
	"gateway.networking.k8s.io/HTTPRoute": {"v1", "v1beta1", "v1alpha2"}, "gateway.networking.k8s.io/GRPCRoute": {"v1", "v1alpha2"},
	"serving.knative.dev/Service": {"v1"},
}

// kube makes applications of manifests: one of each namespace.
type kube struct {
	opts    Options
	report  *report
	objects []*object
	byName  map[[3]string]*object // by kind, namespace and name
}

func importKubernetes(docs []*doc, folders map[string]string, o Options, r *report) (out []*made) {
	k := &kube{opts: o, report: r, byName: map[[3]string]*object{}}
	for _, d := range docs {
		k.add(d, d.root, nil, [2]string{}, 0)
	}
	groups := map[string][]*object{}
	for _, ob := range k.objects {
		if owner := k.owner(ob); owner != nil {
			r.at(Said, ob.doc, ob.at("metadata"), "%s is left out: Kubernetes makes it for %s", ob.title(), owner.title())
			continue
		}
		ns := ob.meta.Namespace
		if ns == "default" || o.Namespace != "" {
			ns = ""
		}
		groups[ns] = append(groups[ns], ob)
	}
	refused := r.refused
	for _, ns := range slices.Sorted(maps.Keys(groups)) {
		g := newKubeGroup(k, ns, groups[ns])
		m := g.make(folders, len(groups) > 1)
		if r.overspent() {
			return nil
		}
		if m == nil {
			continue
		}
		if slices.ContainsFunc(out, func(other *made) bool { return other.app.Application == m.app.Application }) && ns != "" {
			m.app.Application = label(m.app.Application + "-" + ns)
		}
		out = append(out, m)
	}
	if len(out) == 0 && !refused && !r.refused {
		r.at(Refused, docs[0], nil, "has nothing that runs: no Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob that could be read")
	}
	return out
}

// owner is what an object is made for by Kubernetes itself, if that is imported too.
func (k *kube) owner(o *object) *object {
	for _, ref := range o.meta.OwnerReferences {
		if other := k.byName[[3]string{ref.Kind, o.meta.Namespace, ref.Name}]; other != nil && other != o {
			return other
		}
	}
	return nil
}

// maxListDepth bounds lists of lists.
const maxListDepth = 4

// add takes in the object at a path of a document, or those of a list. of are the version and the
// kind of what says neither, as in the list of a kind that the API server itself gives.
func (k *kube) add(d *doc, n *node, base []string, of [2]string, depth int) {
	o := &object{doc: d, base: base, root: n}
	if n.kind != mappingKind {
		k.report.at(Refused, d, base, "is no object of Kubernetes: it is no mapping")
		return
	}
	apiVersion, kind := n.str("apiVersion"), n.str("kind")
	if apiVersion == "" && kind == "" {
		apiVersion, kind = of[0], of[1]
	}
	if apiVersion == "" || kind == "" {
		missing := "apiVersion"
		if apiVersion != "" {
			missing = "kind"
		}
		k.report.at(Refused, d, base, "has no %s, which every object of Kubernetes has", missing)
		return
	}
	o.kind = kind
	var grouped bool
	if o.group, o.version, grouped = strings.Cut(apiVersion, "/"); !grouped {
		o.group, o.version = "", apiVersion
	}
	items := n.child("items")
	if strings.HasSuffix(kind, "List") && items != nil {
		if items.kind != listKind || depth >= maxListDepth {
			k.report.at(Refused, d, o.at("items"), "is no list of objects")
			return
		}
		inner := [2]string{}
		if single := strings.TrimSuffix(kind, "List"); single != "" {
			inner = [2]string{apiVersion, single}
		}
		for i, item := range items.values {
			k.add(d, item, o.at("items", index(i)), inner, depth+1)
		}
		return
	}
	if !decodeInto(k.report, o, n.child("metadata"), o.at("metadata"), &o.meta) {
		return
	}
	if o.meta.Name == "" {
		o.meta.Name = strings.TrimSuffix(o.meta.GenerateName, "-")
	}
	if known, ok := versions[o.group+"/"+kind]; ok {
		if !slices.Contains(known, o.version) {
			k.report.at(Lost, d, o.at("apiVersion"), "%s is no version of %s that is known (%s): it is not carried over", quote(apiVersion), kind, list(known))
			return
		}
		if o.group == "serving.knative.dev" {
			o.kind = knative
		}
		k.take(o)
		return
	}
	if why, ok := notCarried[kind]; ok && (o.group == "" || strings.HasSuffix(o.group, ".k8s.io") || slices.Contains([]string{"apps", "batch", "policy", "extensions"}, o.group)) {
		level := Lost
		if rest, ok := strings.CutPrefix(why, said); ok {
			level, why = Said, rest
		}
		k.report.at(level, d, o.at("kind"), "%s %s", o.title(), why)
		return
	}
	for other, known := range versions {
		if group, name, _ := strings.Cut(other, "/"); strings.EqualFold(name, kind) && group != "extensions" {
			k.report.at(Lost, d, o.at("apiVersion"), "Kubernetes has no %s in %s: it is apiVersion: %s, kind: %s; it is not carried over", quote(kind), quote(apiVersion), strings.TrimPrefix(group+"/"+known[0], "/"), name)
			return
		}
	}
	k.report.at(Lost, d, o.at("kind"), "%s of %s is not carried over: it is no kind that Verge knows", o.title(), quote(apiVersion))
}

// kubeName is what Kubernetes takes for the name of an object.
var kubeName = pattern.Lazy(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// take keeps an object that is known, if it has a name.
func (k *kube) take(o *object) {
	at := o.at("metadata")
	if o.kind != "ConfigMap" && o.kind != "Secret" {
		if in := helmPath(o.root, o.base); in != nil {
			k.report.at(Refused, o.doc, in, "is for Helm to fill in: %s", rendered)
			return
		}
	}
	switch name := o.meta.Name; {
	case name == "":
		k.report.at(Refused, o.doc, at, "Kubernetes would refuse it: %s has no name", o.kind)
		return
	case len(name) > 253 || !kubeName().MatchString(name):
		k.report.at(Refused, o.doc, o.at("metadata", "name"), "Kubernetes would refuse it: %s is no name, which has small letters, digits, - and . alone", quote(name))
		return
	}
	if ns := o.meta.Namespace; ns != "" && !kubeNamespace(ns) {
		k.report.at(Refused, o.doc, o.at("metadata", "namespace"), "Kubernetes would refuse it: %s is no name of a namespace, which has small letters, digits and - alone, 63 at most", quote(ns))
		return
	}
	id := [3]string{o.kind, o.meta.Namespace, o.meta.Name}
	if other := k.byName[id]; other != nil {
		k.report.at(Refused, o.doc, at, "%s is there already, in %s:%d", o.title(), other.doc.file, other.doc.lineOf(other.at("metadata")))
		return
	}
	k.byName[id] = o
	if hook := o.meta.Annotations["helm.sh/hook"]; hook != "" {
		path := o.at("metadata", "annotations", "helm.sh/hook")
		if strings.HasPrefix(hook, "test") {
			k.report.at(Said, o.doc, path, "%s is left out: it is a test of Helm", o.title())
			return
		}
		k.report.at(Lost, o.doc, path, "when Helm would run it (%s) is not carried over: it starts with the others", quote(hook))
	}
	k.objects = append(k.objects, o)
}

// kubeGroup are the objects of one namespace.
type kubeGroup struct {
	*kube
	namespace string
	objects   []*object
	configs   map[string]*configMap
	secrets   map[string]*secretObject
	claims    map[string]*claim
	workloads []*workload
	services  []*kubeService
	app       *api.Application
	taken     map[string]string // published ports
	given     names             // of services
	claimed   map[string]string // hosts and paths, by whom
	// known are the names of Verge for those of Services and pods.
	known map[string]string
	// called are the addresses of Verge for those of Services (web:80) that are others.
	called map[string]string
	// linked are the variables that Kubernetes would set for Services.
	linked map[string]string
	// secretNames are the names of Verge of keys of secrets.
	secretNames  map[string]string
	secretLabels names
}

func newKubeGroup(k *kube, ns string, objects []*object) *kubeGroup {
	g := &kubeGroup{kube: k, namespace: ns, objects: objects, configs: map[string]*configMap{}, secrets: map[string]*secretObject{}, claims: map[string]*claim{},
		taken: map[string]string{}, claimed: map[string]string{}, known: map[string]string{}, secretNames: map[string]string{}}
	return g
}

func (g *kubeGroup) lost(o *object, path []string, format string, args ...any) {
	g.report.at(Lost, o.doc, path, format, args...)
}

func (g *kubeGroup) said(o *object, path []string, format string, args ...any) {
	g.report.at(Said, o.doc, path, format, args...)
}

func (g *kubeGroup) refuse(o *object, path []string, format string, args ...any) {
	g.report.at(Refused, o.doc, path, format, args...)
}

// make makes the application of the group; nil where nothing of it runs.
func (g *kubeGroup) make(folders map[string]string, several bool) *made {
	var rest []*object
	for _, o := range g.objects {
		switch o.kind {
		case "ConfigMap":
			g.configMap(o)
		case "Secret":
			g.secret(o)
		case "PersistentVolumeClaim":
			g.claim(o)
		case "Service":
			g.service(o)
		case "Ingress", "HTTPRoute", "GRPCRoute", "HorizontalPodAutoscaler":
			rest = append(rest, o)
		default:
			g.workload(o)
		}
	}
	if len(g.workloads) == 0 {
		for _, o := range slices.Concat(rest, g.objects) {
			if slices.Contains([]string{"Service", "Ingress", "HTTPRoute", "GRPCRoute"}, o.kind) {
				g.lost(o, o.at("kind"), "%s is not carried over: nothing runs that it leads to", o.title())
			}
		}
		return nil
	}
	name, from := g.name(folders, several)
	g.app = &api.Application{Application: name, Services: map[string]*api.Service{}}
	first := g.workloads[0].object
	if name != from {
		g.said(first, first.at("metadata", "name"), "the application is called %s: %s is no name in Verge", name, quote(from))
	}
	if g.namespace != "" {
		if g.app.Namespace = label(g.namespace); g.app.Namespace != g.namespace {
			g.said(first, first.at("metadata", "namespace"), "is called %s", g.app.Namespace)
		}
	}
	m := &made{app: g.app, kind: Kubernetes, doc: first.doc, origins: map[string]origin{}}
	for _, o := range g.objects {
		if !slices.Contains(m.from, o.doc.file) {
			m.from = append(m.from, o.doc.file)
		}
	}
	g.match()
	g.call()
	g.addresses()
	g.links()
	var unlimited []string
	for _, w := range g.workloads {
		for _, c := range w.containers {
			s := g.container(w, c)
			if !g.report.spend(weight(s)) {
				g.report.tooMuch(w.object.doc, c.path)
				return nil
			}
			g.app.Services[c.name] = s
			m.origins[c.name] = origin{w.object.doc, c.path}
		}
	}
	for _, o := range rest {
		switch o.kind {
		case "Ingress":
			g.ingress(o)
		case "HTTPRoute", "GRPCRoute":
			g.gatewayRoute(o)
		}
	}
	for _, s := range g.services {
		g.lead(s)
	}
	for _, w := range g.workloads {
		g.hostPorts(w)
	}
	for _, o := range rest {
		if o.kind == "HorizontalPodAutoscaler" {
			g.scaler(o)
		}
	}
	for _, w := range g.workloads {
		for _, c := range w.containers {
			s := g.app.Services[c.name]
			portVariables(g.report, w.object.doc, s, func(v string) []string { return g.envPath(c, v) })
			if finish(s, g.opts) {
				unlimited = append(unlimited, c.name)
			}
		}
	}
	g.unused()
	limitNote(g.report, first.doc, unlimited, g.opts)
	return m
}

// name is that of the application: the one asked for, that of the labels, of the only
// workload, of the file or of the folder.
func (g *kubeGroup) name(folders map[string]string, several bool) (string, string) {
	var of []string
	for _, key := range []string{"app.kubernetes.io/part-of", "app.kubernetes.io/instance"} {
		value, same := g.workloads[0].object.meta.Labels[key], true
		for _, w := range g.workloads {
			same = same && w.object.meta.Labels[key] == value
		}
		if same && !strings.EqualFold(value, "release-name") { // what helm template says without a name
			of = append(of, value)
		}
	}
	if len(g.workloads) == 1 {
		of = append(of, g.workloads[0].object.meta.Name)
	}
	file, one := g.objects[0].doc.file, true
	for _, o := range g.objects {
		one = one && o.doc.file == file
	}
	if several && g.namespace != "" {
		of = append(of[:len(of):len(of)], g.namespace) // a file or folder has several
	} else if one {
		of = append(of, baseName(file))
	}
	name, from := appName(g.opts, append(of, folders[file])...)
	if several && g.opts.Name != "" && g.namespace != "" {
		name = label(name + "-" + g.namespace)
		return name, name
	}
	return name, from
}

// configMap and secretObject are what pods take values of.
type configMap struct {
	object *object
	spec   k8s.ConfigMap
	used   bool
}

type secretObject struct {
	object *object
	keys   []string
	kind   k8s.SecretType
}

type claim struct {
	object *object
	spec   k8s.PersistentVolumeClaimSpec
	users  []string
}

func (g *kubeGroup) configMap(o *object) {
	c := &configMap{object: o}
	for field, into := range map[string]any{"data": &c.spec.Data, "binaryData": &c.spec.BinaryData} {
		decodeInto(g.report, o, o.root.child(field), o.at(field), into)
	}
	g.report.leftovers(o.doc, o.root, o.base, dataTrie())
	g.configs[o.meta.Name] = c
}

// secret takes the names of the keys of one, and no values.
func (g *kubeGroup) secret(o *object) {
	s := &secretObject{object: o, kind: k8s.SecretType(o.root.str("type"))}
	data := map[string][]byte{}
	var text map[string]string
	decodeInto(g.report, o, o.root.child("data"), o.at("data"), &data)
	decodeInto(g.report, o, o.root.child("stringData"), o.at("stringData"), &text)
	s.keys = slices.Sorted(maps.Keys(data))
	for k := range text {
		if _, both := data[k]; !both {
			s.keys = append(s.keys, k)
		}
	}
	slices.Sort(s.keys)
	g.report.leftovers(o.doc, o.root, o.base, dataTrie())
	g.secrets[o.meta.Name] = s
}

func (g *kubeGroup) claim(o *object) {
	c := &claim{object: o}
	decodeInto(g.report, o, o.root.child("spec"), o.at("spec"), &c.spec)
	g.report.leftovers(o.doc, o.root, o.base, claimTrie())
	g.claims[o.meta.Name] = c
}

// unused notes what no container takes.
func (g *kubeGroup) unused() {
	for _, name := range slices.Sorted(maps.Keys(g.configs)) {
		if c := g.configs[name]; !c.used {
			g.said(c.object, c.object.at("metadata", "name"), "is used by no container here, and left out")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.claims)) {
		if c := g.claims[name]; len(c.users) == 0 {
			g.said(c.object, c.object.at("metadata", "name"), "is used by no container here, and left out")
		}
	}
}
