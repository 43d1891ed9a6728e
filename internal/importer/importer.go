package importer

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
)

// Kind of a source.
type Kind string

// Kinds of sources.
const (
	Oakestra   Kind = "oakestra"
	Compose    Kind = "compose"
	Kubernetes Kind = "kubernetes"
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{Compose, Oakestra, Kubernetes} }

// title is what people call it.
func (k Kind) title() string {
	return map[Kind]string{Oakestra: "Oakestra", Compose: "compose", Kubernetes: "Kubernetes"}[k]
}

// ComposeNames are the files that docker compose looks for in a folder, in this order.
var ComposeNames = []string{"compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"}

// Source is one file.
type Source struct {
	// Name by which notes call it; "stdin" is standard input.
	Name string
	Data []byte
	// Folder is the name of the one that it is in, "" where there is none: a compose
	// file without name is called so.
	Folder string
	// Open reads a file that the source refers to, by a path below its folder; nil, and
	// an error, are that it cannot be had.
	Open func(path string) ([]byte, error)
}

// base is the name of its file, without folders.
func (s Source) base() string { return path.Base(strings.ReplaceAll(s.Name, `\`, "/")) }

// Options of Import.
type Options struct {
	// Kind of all sources; "" is found out from what is in them.
	Kind Kind
	// Name of the application, where one is made; "" is taken from the sources.
	Name string
	// Namespace of all applications; "" is that of the sources, if they name one.
	Namespace string
	// Variables that a compose file may refer to. The environment is not looked at. Nil is
	// that a file .env beside it counts, as for docker compose; what is called as secrets are
	// in that one becomes secrets, while Variables stand in the descriptor.
	Variables map[string]string
	// Profiles of a compose file whose services are wanted; "*" is all.
	Profiles []string
	// MemoryLimit of instances for which a source states none; 0 is 1 GiB. Verge has no
	// instance without a limit.
	MemoryLimit api.Bytes
}

// App is one application that was made.
type App struct {
	Name string
	// Source is its descriptor.
	Source []byte
	// From are the files that it was made of.
	From []string
}

// Result of Import. Without an error all of Apps can be used.
type Result struct {
	Apps  []App
	Notes []Note
	// Lost: something was not carried over.
	Lost bool
}

// ErrRefused is the error where sources were understood, or not even that, and no
// descriptor could be made; the Notes of the Result say why.
var ErrRefused = errors.New("nothing could be made of it")

// made is an application before it is written.
type made struct {
	app  *api.Application
	kind Kind
	from []string
	// origin of the application and of each service: a document and a path.
	doc     *doc
	origins map[string]origin
}

type origin struct {
	doc  *doc
	path []string
}

// Import makes descriptors of sources. Where it fails the result has notes alone.
func Import(sources []Source, o Options) (*Result, error) {
	if o.MemoryLimit == 0 {
		o.MemoryLimit = 1 << 30
	}
	r := &report{}
	var files []string
	folders := map[string]string{}
	known := &oakestraNames{known: map[string]string{}, addresses: map[string]string{}}
	var manifests []*doc
	var all []*made
	for _, s := range sources {
		files = append(files, s.Name)
		folders[s.Name] = s.Folder
		docs, err := parse(s)
		if err != nil {
			n := Note{Level: Refused, File: s.Name, Text: err.Error()}
			if p := (*problem)(nil); errors.As(err, &p) {
				n.Line = p.line
			}
			r.add(n)
			continue
		}
		if text := recipe(s, docs); text != "" {
			r.add(Note{Level: Refused, File: s.Name, Line: docs[0].root.line, Text: text})
			continue
		}
		kind, why := o.Kind, ""
		if kind == "" {
			kind, why = detect(docs)
		}
		for _, d := range docs {
			d.notTwice(kind, r)
		}
		switch {
		case len(docs) == 0:
			r.add(Note{Level: Refused, File: s.Name, Text: "says nothing"})
		case kind == Compose:
			all = append(all, importCompose(s, docs, o, r)...)
		case kind == Oakestra:
			all = append(all, importOakestra(docs, o, r, known)...)
		case kind == Kubernetes:
			manifests = append(manifests, docs...)
		default:
			r.add(Note{Level: Refused, File: s.Name, Line: docs[0].root.line, Text: why})
		}
	}
	if len(manifests) > 0 {
		all = append(all, importKubernetes(manifests, folders, o, r)...)
	}
	res := &Result{}
	seen := map[string]*made{}
	for _, m := range all {
		if o.Namespace != "" {
			m.app.Namespace = o.Namespace
		}
		if other := seen[m.app.Application]; other != nil {
			r.at(Refused, m.doc, nil, "makes the application %s, and so does %s: import one of them by itself, with another name (--name)", m.app.Application, other.from[0])
			continue
		}
		seen[m.app.Application] = m
		res.Apps = append(res.Apps, m.write(r))
	}
	res.Notes, res.Lost = r.sorted(files), r.lost
	if r.refused || len(res.Apps) == 0 {
		res.Apps = nil
		return res, ErrRefused
	}
	return res, nil
}

// RecipeNames are the files by which a folder is known as one that something else makes
// manifests of: without that, what lies in it is not what would run.
var RecipeNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization", "Chart.yaml"}

// recipe says what to do with a source that is no manifest, but says how manifests are made.
func recipe(s Source, docs []*doc) string {
	if len(docs) == 0 {
		return ""
	}
	root, folder := docs[0].root, path.Dir(strings.ReplaceAll(s.Name, `\`, "/"))
	switch named := slices.Contains(RecipeNames, s.base()); {
	case root.str("kind") == "Kustomization" && strings.HasPrefix(root.str("apiVersion"), "kustomize.config.k8s.io/"),
		named && s.base() != "Chart.yaml" && root.child("apiVersion") == nil:
		return "is a kustomization, and no manifest: kubectl kustomize " + folder + " | verge import - takes what comes out"
	case root.child("kind") == nil && root.str("name") != "" && root.str("version") != "" && strings.HasPrefix(root.str("apiVersion"), "v"):
		return "is a chart of Helm: " + rendered
	}
	return ""
}

// notTwice notes the keys that stand twice with the same value: compose takes none, and for
// others the last counts.
func (d *doc) notTwice(kind Kind, r *report) {
	for _, t := range d.twice {
		level := Said
		if kind == Compose {
			level = Refused
		}
		r.add(Note{Level: level, File: d.file, Line: t.line, Text: fmt.Sprintf("the key %s is in line %d already, with the same value", quote(t.name), t.first)})
	}
}

// detect finds out what documents are, or says why that is not known.
func detect(docs []*doc) (Kind, string) {
	for _, d := range docs {
		switch {
		case d.root.child("apiVersion") != nil && d.root.child("kind") != nil:
			return Kubernetes, ""
		case d.root.child("sla_version") != nil || d.root.child("applications") != nil && d.root.child("customerID") != nil:
			return Oakestra, ""
		case d.root.child("application") != nil && d.root.child("services") != nil:
			return "", "is a descriptor of Verge already: verge apply takes it"
		case d.root.child("services") != nil || d.root.child("include") != nil:
			return Compose, ""
		case d.root.child("api_version") != nil && d.root.child("applications") != nil, d.root.child("microservices") != nil:
			return Oakestra, ""
		case beforeServices(d.root):
			return Compose, ""
		case d.root.child("resources") != nil && d.root.child("resources").kind == listKind:
			return "", "is no manifest of Kubernetes: if it is a kustomization, kustomize build makes manifests of its folder: kustomize build DIRECTORY | verge import -"
		}
	}
	return "", "is neither a compose file (services), nor an Oakestra descriptor (sla_version), nor a manifest of Kubernetes (apiVersion and kind): say which it is by verge import compose|oakestra|kubernetes FILE"
}

// appName is the name of an application: that asked for, or of what the source says.
func appName(o Options, said ...string) (name, from string) {
	if o.Name != "" {
		return o.Name, o.Name
	}
	for _, s := range said {
		if s != "" && s != "." && s != "/" {
			return label(s), s
		}
	}
	return "app", "app"
}

// baseName is the name of a file without what stands for its kind.
func baseName(file string) string {
	if file == "stdin" {
		return ""
	}
	base := Source{Name: file}.base()
	for _, ext := range []string{".yaml", ".yml", ".json"} {
		base = strings.TrimSuffix(base, ext)
	}
	return base
}

// none are no replicas at all, which is not the same as silence.
var none = api.Replicas{Min: -1, Max: -1}

// finish gives a service what Verge wants of each: replicas, a limit of memory, and reservations
// that are not more than the limits. It says whether the limit is ours.
func finish(s *api.Service, o Options) (ours bool) {
	switch s.Replicas {
	case api.Replicas{}:
		s.Replicas = api.Replicas{Min: 1, Max: 1}
	case none:
		s.Replicas = api.Replicas{}
	}
	if s.Limits.Memory == 0 {
		s.Limits.Memory, ours = max(o.MemoryLimit, s.Resources.Memory), true
	}
	if s.Resources.Memory == 0 && s.Limits.Memory < api.DefaultMemory {
		s.Resources.Memory = s.Limits.Memory
	}
	if s.Limits.CPU != 0 && s.Resources.CPU == 0 && s.Limits.CPU < api.DefaultCPU {
		s.Resources.CPU = s.Limits.CPU
	}
	return ours
}

// limitNote says once for which services the limit is ours.
func limitNote(r *report, d *doc, services []string, o Options) {
	if len(services) > 0 {
		r.at(Said, d, nil, "states no memory limit for %s: each instance may use %s (--memory-limit)", list(services), o.MemoryLimit)
	}
}

// list writes a few names.
func list(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
