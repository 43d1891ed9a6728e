package compose

import (
	"maps"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/compose/merge"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Import makes an application of a compose file, which is one document. What it cannot carry
// over is in r.
func Import(s source.File, docs []*source.Document, o draft.Options, r *report.Report) []*draft.Draft {
	if len(docs) > 1 {
		r.At(report.Refused, docs[1], nil, "a second document begins: docker compose config makes one of several")
		return nil
	}
	c := &converter{doc: docs[0], source: s, opts: o, report: r, used: map[string]bool{},
		secrets: map[string]map[string]string{}, secretNames: map[string]string{},
		unfit: map[string]string{}, names: map[string]string{}, called: map[string]string{},
		wanted: map[string][]string{},
		taken:  map[string]string{}}
	if !c.load() {
		return nil
	}
	return c.make()
}

// load fills project and reports success.
func (c *converter) load() bool {
	root := c.doc.Root
	if root.Kind != source.Mapping {
		c.report.At(report.Refused, c.doc, nil, "is not a mapping: a compose file has services")
		return false
	}
	var ok bool
	if c.joined, ok = merge.Files(c.doc, c.source, c.opts.Variables != nil, c.report); !ok {
		return false
	}
	if c.joined != nil {
		c.doc = c.joined.Doc
	}
	root = c.doc.Root
	if root.Child("services").Empty() {
		switch {
		case BeforeServices(root):
			c.report.At(report.Refused, c.doc, nil,
				"has no services: this is the first form of compose files, which docker compose no longer reads; "+
					"write \"services:\" above them, and indent them")
		default:
			c.report.At(report.Refused, c.doc, nil, "has no services")
		}
		return false
	}
	if c.doc.Size > merge.MaxValues {
		c.report.At(report.Refused, c.doc, nil, "has more than %d values, once its aliases are followed: divide it",
			merge.MaxValues)
		return false
	}
	services := root.Child("services")
	// The loader looks for cycles in time that grows with the square of their number.
	if n := len(services.Keys); n > api.MaxServices {
		c.report.At(report.Refused, c.doc, []string{"services"},
			"cannot be expressed: there are %d, and an application has at most %d", n, api.MaxServices)
		return false
	}
	before := c.report.Refused
	c.besides()
	if c.joined != nil && c.opts.Variables == nil {
		vars := c.joined.Env
		maps.Copy(vars, c.beside) // these take precedence
		derived := c.joined.Derived
		maps.Copy(derived, c.derived)
		c.beside, c.derived = vars, derived
	}
	if secrets := root.Child("secrets"); secrets != nil {
		for _, k := range secrets.Keys { // reserves their names before variables get theirs
			c.secretNames["secrets."+k.Name] = c.secretLabels.Unique(k.Name)
		}
	}
	plain, _ := c.interpolate(root, nil).(map[string]any)
	if c.report.Overspent() || c.report.Refused && !before || before && c.report.Refused && plain == nil {
		return false
	}
	if name, is := plain["name"].(string); is {
		c.own = strings.ReplaceAll(name, "$$", "$")
	}
	if !c.bounded(plain) {
		return false
	}
	delete(plain, "version") // it means nothing, and the loader would log a complaint
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

// BeforeServices says whether a file has the old form, with the services at the top.
func BeforeServices(root *source.Node) bool {
	for _, v := range root.Values {
		if v.Str("image") == "" && v.Child("build").Empty() {
			return false
		}
	}
	return root.Kind == source.Mapping && len(root.Values) > 0
}

// defaultNetwork adds the network that each project has. Services may name it without a section
// of networks.
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

// settle removes what is not a service of the project from the result of compose-go. Services
// that extend another inherit its secrets.
func (c *converter) settle() bool {
	services := c.doc.Root.Child("services")
	var inherit func(name string, depth int)
	inherit = func(name string, depth int) {
		e := services.Child(name).Child("extends")
		if e.Empty() || depth > len(services.Keys) {
			return
		}
		base := e.Text
		if e.Kind == source.Mapping {
			base = e.Str("service")
		}
		inherit(base, depth+1)
		for variable, secret := range c.secrets[base] {
			if _, own := c.project.Services[name].Environment[variable]; own || c.secrets[name][variable] != "" {
				continue
			}
			if c.secrets[name] == nil {
				c.secrets[name] = map[string]string{}
			}
			c.secrets[name][variable] = secret
		}
	}
	for _, k := range services.Keys {
		inherit(k.Name, 0)
	}
	if c.joined == nil {
		return true
	}
	for _, name := range c.joined.Bases {
		delete(c.project.Services, name)
		delete(c.project.DisabledServices, name)
	}
	fine := true
	for name, s := range c.project.Services {
		if s.Image == merge.NoImage && s.Build == nil {
			c.report.At(report.Refused, c.doc, c.path(name),
				"is not a valid compose file: the service has neither an image nor a build, nor has what it extends")
			fine = false
		} else if s.Image == merge.NoImage {
			s.Image = ""
			c.project.Services[name] = s
		}
	}
	return fine
}

// FileNames are the files that docker compose looks for in a folder, in this order.
var FileNames = []string{"compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"}
