package source

import (
	"bytes"
	"errors"

	"github.com/verge-edge/verge/api/pattern"
)

// helm returns a better error for invalid YAML that looks like a template of Helm.
func helm(data []byte, err error) error {
	p := (*Problem)(nil)
	if !bytes.Contains(data, []byte("{{")) || !errors.As(err, &p) {
		return err
	}
	return &Problem{p.Line, p.text + "; is it a template of Helm? " + HelmRemedy}
}

// HelmRemedy says what to do with a Helm template.
const HelmRemedy = "helm template NAME CHART | verge import - takes what comes out"

// helmValue finds values that only Helm knows. Other templates are for the program that runs.
var helmValue = pattern.Lazy(`\{\{[^}]*\.(Values|Release|Chart|Capabilities)\b`)

// HelmPath returns where n, at a path, has a value for Helm to fill in; nil if it has none.
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
