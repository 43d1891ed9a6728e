package draft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Write makes the descriptor and validates it with api. Its errors are what could not be expressed,
// and are noted at the lines that they come from.
func (m *Draft) Write(r *report.Report) App {
	text, err := render(m.App)
	if err == nil {
		head := "# Made of " + strings.Join(shown(m.From), ", ") + " (" + m.Kind.Title() + ") by verge import.\n"
		text = append([]byte(head), text...)
		_, _, err = descriptor.Parse(m.App.Application, text)
	}
	var all descriptor.Errors
	switch {
	case errors.As(err, &all):
		for _, e := range all {
			o := m.origin(e.Path)
			what := e.Message
			if e.Remedy != "" {
				what += ": " + e.Remedy
			}
			if e.Path == "" {
				r.At(report.Refused, o.Doc, o.Path, "cannot be expressed: the descriptor %s", what)
				continue
			}
			r.At(report.Refused, o.Doc, o.Path, "cannot be expressed: %s would be wrong in the descriptor: %s", e.Path,
				what)
		}
	case err != nil:
		r.At(report.Refused, m.Doc, nil, "cannot be expressed: %v", err)
	}
	return App{Name: m.App.Application, Source: text, From: m.From}
}

// shown are names of files, safe for a comment.
func shown(files []string) []string {
	var out []string
	for _, f := range files {
		out = append(out, strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return '?'
			}
			return r
		}, f))
	}
	if len(out) > 3 {
		out = append(out[:3:3], fmt.Sprintf("%d more", len(files)-3))
	}
	return out
}

// origin is the source of a field of a descriptor.
func (m *Draft) origin(field string) Origin {
	if rest, ok := strings.CutPrefix(field, "services."); ok {
		name, _, _ := strings.Cut(rest, ".")
		if o, ok := m.Origins[name]; ok {
			return o
		}
	}
	return Origin{Doc: m.Doc}
}

// render writes an application as people write a descriptor.
func render(app *api.Application) ([]byte, error) {
	data, err := json.Marshal(app)
	if err != nil {
		return nil, fmt.Errorf("encode it: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	root, err := tokens(d, nil)
	if err != nil {
		return nil, fmt.Errorf("encode it: %w", err)
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("encode it: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("encode it: %w", err)
	}
	return out.Bytes(), nil
}

// tokens turns JSON into YAML, with the fields in the same order, without those that a descriptor
// must leave out.
func tokens(d *json.Decoder, path []string) (*yaml.Node, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if t == '{' {
			n.Kind = yaml.MappingNode
		}
		for d.More() {
			if t == '[' {
				v, err := tokens(d, source.Extend(path, "[]"))
				if err != nil {
					return nil, err
				}
				n.Content = append(n.Content, v)
				continue
			}
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, _ := k.(string)
			v, err := tokens(d, source.Extend(path, name))
			if err != nil {
				return nil, err
			}
			if !leftOut(path, name, v) {
				n.Content = append(n.Content, text(name), v)
			}
		}
		if _, err := d.Token(); err != nil {
			return nil, err
		}
		return simpler(path, n), nil
	case string:
		return text(t), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: t.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(t)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

func text(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.Contains(s, "\n") {
		n.Style = yaml.LiteralStyle
	}
	return n
}

// leftOut: a file has exactly one of content and secret, and no mode of 0.
func leftOut(path []string, name string, v *yaml.Node) bool {
	if len(path) != 4 || path[0] != "services" || path[2] != "files" {
		return false
	}
	return name == "secret" && v.Value == "" || name == "mode" && v.Value == "0000"
}

// simpler writes {min: 3, max: 3} as 3, and removes the content of secret files.
func simpler(path []string, n *yaml.Node) *yaml.Node {
	switch {
	case len(path) == 3 && path[0] == "services" && path[2] == "replicas" && len(n.Content) == 4 &&
		n.Content[1].Value == n.Content[3].Value:
		return n.Content[1]
	case len(path) == 4 && path[0] == "services" && path[2] == "files":
		isSecret := false
		for i := 0; i < len(n.Content); i += 2 {
			isSecret = isSecret || n.Content[i].Value == "secret"
		}
		for i := 0; isSecret && i < len(n.Content); i += 2 {
			if n.Content[i].Value == "content" {
				n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
				break
			}
		}
	}
	return n
}
