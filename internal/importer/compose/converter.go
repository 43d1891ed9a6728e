package compose

import (
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/compose/merge"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// converter makes an application of a compose file.
type converter struct {
	doc     *source.Document
	source  source.File
	opts    draft.Options
	report  *report.Report
	project *types.Project
	joined  *merge.Result // nil: the file names no others
	own     string        // name of the project that the file gives it
	// beside are the variables of the file .env beside it, used those that are referred to.
	beside map[string]string
	used   map[string]bool
	// derived are those whose values contain a secret. blank are those that refer to a variable
	// that nothing sets, with its name.
	derived map[string]bool
	blank   map[string]string
	// secrets are the names of the secrets for variables whose values are not in the file, by
	// service and variable. secretNames are those by what they are made of.
	secrets      map[string]map[string]string
	secretNames  map[string]string
	secretLabels draft.Names
	unfit        map[string]string   // files that cannot be carried over: why
	names        map[string]string   // of services, in Verge
	called       map[string]string   // services by each name that they have with Docker
	wanted       map[string][]string // services that others reach, by whom
	taken        map[string]string   // published ports, by whom
	app          *api.Application
}

// profiles returns the requested profiles, or else those that the file beside names.
func (c *converter) profiles() []string {
	if said := c.beside["COMPOSE_PROFILES"]; len(c.opts.Profiles) == 0 && said != "" {
		c.used["COMPOSE_PROFILES"] = true
		return strings.Split(said, ",")
	}
	return c.opts.Profiles
}

func (c *converter) path(service string, more ...string) []string {
	return append([]string{"services", service}, more...)
}

func (c *converter) lost(service, text string, field ...string) {
	c.report.At(report.Lost, c.doc, c.path(service, field...), "%s", text)
}

func (c *converter) said(service, text string, field ...string) {
	c.report.At(report.Said, c.doc, c.path(service, field...), "%s", text)
}

// hidden encloses the name of a variable with a secret value in a text. No source contains it,
// as it is a control character.
const hidden = "\x02"

// lookup returns the value of a variable, or its name enclosed in hidden.
func (c *converter) lookup(name string) (string, bool) {
	if v, set := c.opts.Variables[name]; set {
		return v, true
	}
	v, set := c.beside[name]
	if (draft.SecretValue(name, v) || c.derived[name]) && (!set || v != "") {
		return hidden + name + hidden, set
	}
	if set {
		c.used[name] = true
	}
	return v, set
}
