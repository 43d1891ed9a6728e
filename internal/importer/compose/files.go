package compose

import (
	"path"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/compose/dotenv"
	"github.com/verge-edge/verge/internal/importer/compose/template"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

func mode(m *types.FileMode, otherwise api.FileMode) api.FileMode {
	if m == nil || *m < 1 || *m > 0o777 {
		return otherwise
	}
	return api.FileMode(*m)
}

func (c *converter) config(name string, i int, ref types.ServiceConfigObjConfig, out *api.Service) {
	target := ref.Target
	if target == "" {
		target = "/" + ref.Source
	}
	def := c.project.Configs[ref.Source]
	content, from := def.Content, ""
	switch {
	case def.File != "":
		text, why := c.text(def.File)
		if why != "" {
			c.lost(name, "is not carried over: "+why, "configs", source.Index(i))
			return
		}
		content, from = text, def.File
	case def.Environment != "":
		v, ok := c.lookup(def.Environment)
		if strings.Contains(v, hidden) {
			secret := c.secretName("${"+def.Environment+"}", def.Environment)
			c.said(name, "becomes the secret "+secret+": "+c.toSet(def.Environment, secret), "configs", source.Index(i))
			if why := draft.AddFile(out, target, api.File{Secret: secret, Mode: mode(ref.Mode, 0o444)}); why != "" {
				c.lost(name, why, "configs", source.Index(i))
			}
			return
		}
		if !ok {
			c.lost(name, "is not carried over: nothing sets ${"+def.Environment+"} (--env-file)", "configs",
				source.Index(i))
			return
		}
		content = v
	case bool(def.External):
		c.lost(name, "is not carried over: its content is not in the file", "configs", source.Index(i))
		return
	}
	if why := draft.AddFile(out, target,
		c.file(from, content, mode(ref.Mode, 0o444), c.path(name, "configs", source.Index(i)))); why != "" {
		c.lost(name, why, "configs", source.Index(i))
	}
}

// beneath reads a file beside the source; why says why it cannot.
func (c *converter) beneath(file string) (data []byte, why string) {
	if c.source.Open == nil || path.IsAbs(file) || strings.HasPrefix(file, "~") {
		return nil, source.Quote(file) + " is not beside the compose file"
	}
	data, err := c.source.Open(path.Clean(file))
	if err != nil {
		return nil, source.Quote(file) + " cannot be read beside the compose file"
	}
	return data, ""
}

// text reads a small text file beside the source.
func (c *converter) text(file string) (text, why string) {
	if why := c.unfit[file]; why != "" {
		return "", why
	}
	data, why := c.beneath(file)
	switch {
	case why != "":
		return "", why
	case len(data) > draft.MaxContent:
		why = source.Quote(file) + " is larger than 256 KiB; make an object of it (verge object put)"
	case source.Readable(data) != nil || strings.ContainsFunc(string(data), source.Unprintable):
		why = source.Quote(file) + " is not text; make an object of it (verge object put), or put it into the image"
	default:
		return string(data), ""
	}
	c.unfit[file] = why
	return "", why
}

// file makes a file with a text from a file beside the source, or from the source itself. One
// that contains a secret becomes a secret.
func (c *converter) file(from, text string, mode api.FileMode, at []string) api.File {
	if !c.report.Spend(len(text)) {
		c.report.TooMuch(c.doc, at)
		return api.File{}
	}
	if from == "" || !secretText(from, text) {
		return api.File{Content: draft.Literal(text), Mode: mode}
	}
	from = path.Clean(from)
	name := c.secretName("file:"+from, strings.TrimLeft(path.Base(from), "."))
	c.report.At(report.Said, c.doc, at,
		"becomes the secret %s, as there are secrets in it: verge secret set %s --from-file %s", name, name,
		shownPath(from))
	return api.File{Secret: name, Mode: mode}
}

// secretText says whether a file is a private key, or a file of variables with a secret.
func secretText(file, text string) bool {
	if strings.Contains(text, "PRIVATE KEY-----") {
		return true
	}
	if !strings.HasSuffix(file, dotenv.DotEnv) {
		return false
	}
	vars, err := dotenv.Read([]byte(text), nil, template.None, (&report.Report{}).Spend)
	if err != nil {
		return true
	}
	for k, v := range vars.Values {
		if v != "" && draft.SecretValue(k, v) {
			return true
		}
	}
	return false
}
