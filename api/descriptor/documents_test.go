package descriptor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
)

func TestDocuments(t *testing.T) {
	for source, want := range map[string]string{
		"a: 1\n":            `1:"a: 1\n"`,
		"":                  `1:""`,
		"# nothing\n---\n":  `1:"# nothing\n---\n"`,
		"---\na: 1\n":       `1:"---\na: 1\n"`,
		"a: 1\n---\nb: 2\n": `1:"a: 1\n" 2:"---\nb: 2\n"`,
		"# x\n---\na: 1\n--- # y\nb: 2\n...\n---": `2:"---\na: 1\n" 4:"--- # y\nb: 2\n...\n"`,
		"a: |\n  ---\n  x\n---x: 1\n":             `1:"a: |\n  ---\n  x\n---x: 1\n"`,
		"{\"a\": 1}\n---\n{\"b\": 2}":             `1:"{\"a\": 1}\n" 2:"---\n{\"b\": 2}"`,
	} {
		var got []string
		for _, d := range Documents([]byte(source)) {
			got = append(got, fmt.Sprintf("%d:%q", d.Line, d.Source))
			if lines := strings.Count(string(d.InPlace()), "\n") - strings.Count(string(d.Source), "\n"); lines != d.Line-1 {
				t.Errorf("%q: %d lines before line %d", source, lines, d.Line)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%q:\n%s, want\n%s", source, text, want)
		}
	}
}

func TestInNamespace(t *testing.T) {
	for source, want := range map[string]string{
		"# mine\napplication: a\nservices: {w: {command: [x]}} # one\n":    "# mine\nnamespace: shop\napplication: a\nservices: {w: {command: [x]}} # one\n",
		"---\n  application: a\n  services: {w: {command: [x]}}\n":         "---\n  namespace: shop\n  application: a\n  services: {w: {command: [x]}}\n",
		"{application: a, services: {w: {command: [x]}}}":                  "{namespace: shop, application: a, services: {w: {command: [x]}}}",
		`{"application": "a", "services": {"w": {"command": ["x"]}}}`:      `{"namespace": "shop", "application": "a", "services": {"w": {"command": ["x"]}}}`,
		"\ufeffapplication: a\nservices:\n  w:\n    command: [x]\n":        "namespace: shop\napplication: a\nservices:\n  w:\n    command: [x]\n",
		"? application\n: a\n? services\n: {w: {command: [x]}}\n":          "",
		"--- {application: a, services: {w: {command: [x]}}}\n# the end\n": "--- {namespace: shop, application: a, services: {w: {command: [x]}}}\n# the end\n",
	} {
		app, _, err := Parse("", []byte(source))
		if err != nil {
			t.Fatal(source, err)
		}
		text, next, err := InNamespace([]byte(source), app, "shop")
		if err != nil || next.Namespace != "shop" || app.Namespace != api.DefaultNamespace || NamesNamespace([]byte(source)) || !NamesNamespace(text) {
			t.Errorf("%q: %+v, %v", source, next, err)
		}
		if want != "" && string(text) != want {
			t.Errorf("%q:\n%s, want\n%s", source, text, want)
		}
		if again, _, err := Parse("", text); err != nil || again.Namespace != "shop" || again.Services["w"].Command[0] != "x" {
			t.Errorf("%s: %v", text, err)
		}
	}
}
