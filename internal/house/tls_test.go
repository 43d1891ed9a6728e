package house

import (
	"go/ast"
	"testing"
)

// tlsMaker makes all TLS configurations, so that a setting of all is changed in one place.
const tlsMaker = "internal/tlsconf"

// tlsConfigs finds TLS configurations that are made elsewhere, and lowest versions that are
// set elsewhere.
func tlsConfigs(files []*file) []finding {
	var out []finding
	for _, f := range parsed(files) {
		if _, layer := roomOf(f.pkg()); layer == outside || f.pkg() == tlsMaker || f.isTest() || suite(f.pkg()) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CompositeLit:
				if s, ok := x.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Config" {
					if of, ok := s.X.(*ast.Ident); ok && of.Name == "tls" {
						out = append(out, finding{f.path, f.line(x), "start with tlsconf.Internal or tlsconf.Public"})
					}
				}
			case *ast.SelectorExpr:
				if x.Sel.Name == "MinVersion" || x.Sel.Name == "CipherSuites" || x.Sel.Name == "CurvePreferences" {
					out = append(out, finding{f.path, f.line(x), x.Sel.Name + " is set in " + tlsMaker + " for all"})
				}
			}
			return true
		})
	}
	return out
}

func TestTLSConfigs(t *testing.T) { check(t, tlsConfigs) }

func TestTLSConfigsFindsViolations(t *testing.T) {
	src := "package a\n\nimport \"crypto/tls\"\n\nfunc a() {\n\tc := &tls.Config{}\n\tc.MinVersion = 1\n}\n"
	plant(t, tlsConfigs, map[string]planted{
		"elsewhere": {map[string]string{"internal/rest/a.go": src}, []string{
			"internal/rest/a.go:6 tlsconf.Internal", "internal/rest/a.go:7 for all",
		}},
		"at its place": {files: map[string]string{"internal/tlsconf/a.go": src}},
		"a test":       {files: map[string]string{"internal/rest/a_test.go": src}},
	})
}
