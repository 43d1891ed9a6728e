package source

import (
	"bytes"
	"errors"

	"github.com/verge-edge/verge/api/pattern"
)

// helm says of what is no YAML that it is a template, if it looks like one.
func helm(data []byte, err error) error {
	p := (*Problem)(nil)
	if !bytes.Contains(data, []byte("{{")) || !errors.As(err, &p) {
		return err
	}
	return &Problem{p.Line, p.text + "; is it a template of Helm? " + HelmRemedy}
}

// HelmRemedy says what to do with a template of Helm.
const HelmRemedy = "helm template NAME CHART | verge import - takes what comes out"

// helmValue finds what only Helm knows. Other templates are for the program that runs.
var helmValue = pattern.Lazy(`\{\{[^}]*\.(Values|Release|Chart|Capabilities)\b`)

// HelmPath is where n, at a path, has a value that Helm is to fill in; nil where it has none.
func HelmPath(n *Node, path []string) []string {
	if n.Kind == Scalar {
		if helmValue().MatchString(n.Text) {
			return path
		}
		return nil
	}
	for i, v := range n.Values {
		step := Index(i)
		if n.Kind == Mapping {
			step = n.Keys[i].Name
		}
		if at := HelmPath(v, Extend(path, step)); at != nil {
			return at
		}
	}
	return nil
}
