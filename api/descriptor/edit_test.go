package descriptor

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
)

func TestScaled(t *testing.T) {
	for name, tc := range map[string]struct{ in, out string }{
		"number": {
			"application: shop # ours\nservices:\n  web:\n    command: [x]\n    replicas: 3 # enough\n  db: {command: [y]}\n",
			"application: shop # ours\nservices:\n  web:\n    command: [x]\n    replicas: 12 # enough\n  db: {command: [y]}\n",
		},
		"silent": {
			"application: shop\nservices:\n  web:\n    # the program\n    command: [x]\n",
			"application: shop\nservices:\n  web:\n    # the program\n    replicas: 12\n    command: [x]\n",
		},
		"in braces": {
			"application: shop\nservices: {web: {command: [x]}}\n",
			"application: shop\nservices: {web: {replicas: 12, command: [x]}}\n",
		},
		"pair": {
			"application: shop\nservices:\n  web:\n    replicas: {min: 3, max: 3}\n    command: [x]\n",
			"application: shop\nservices:\n  web:\n    replicas: {min: 12, max: 12}\n    command: [x]\n",
		},
		"pair, silent": {
			"application: shop\nservices:\n  web:\n    replicas:\n      min: 3\n    command: [x]\n",
			"application: shop\nservices:\n  web:\n    replicas:\n      min: 12\n    command: [x]\n",
		},
		"json": {
			`{"application": "shop", "services": {"web": {"command": ["é"], "replicas": 3}}}`,
			`{"application": "shop", "services": {"web": {"command": ["é"], "replicas": 12}}}`,
		},
		"json, silent": {
			`{"application": "shop", "services": {"web": {"command": ["x"]}}}`,
			`{"application": "shop", "services": {"web": {"replicas": 12, "command": ["x"]}}}`,
		},
		"after what is not ASCII": {
			"application: shop\nservices:\n  web: {env: {A: äöü€}, replicas: 1, command: [x]}\n",
			"application: shop\nservices:\n  web: {env: {A: äöü€}, replicas: 12, command: [x]}\n",
		},
		"mark, and lines as on Windows": {
			"\ufeffapplication: shop\r\nservices:\r\n  web:\r\n    replicas: 1\r\n    command: [x]\r\n",
			"application: shop\r\nservices:\r\n  web:\r\n    replicas: 12\r\n    command: [x]\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			app, _, err := Parse("", []byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			before := app.Services["web"].Replicas
			got, next, err := Scaled([]byte(tc.in), app, "web", 12)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.out {
				t.Errorf("got\n%s\nwant\n%s", got, tc.out)
			}
			if next.Services["web"].Replicas != (api.Replicas{Min: 12, Max: 12}) || app.Services["web"].Replicas != before {
				t.Errorf("says %v, and what was there %v", next.Services["web"].Replicas, app.Services["web"].Replicas)
			}
		})
	}
}

// A service that others are written by cannot be changed alone in the text.
func TestScaledAlias(t *testing.T) {
	in := "application: shop\nservices:\n  web: &x {command: [x], replicas: 2}\n  api: *x\n"
	app, _, err := Parse("", []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web", "api"} {
		text, _, err := Scaled([]byte(in), app, name, 7)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := Parse("", text)
		if err != nil {
			t.Fatal(err)
		}
		for _, svc := range []string{"web", "api"} {
			want := 2
			if svc == name {
				want = 7
			}
			if n := got.Services[svc].Replicas.Min; n != want {
				t.Errorf("scaling %s: %s has %d replicas, want %d", name, svc, n, want)
			}
		}
	}
}

func TestScaledRefuses(t *testing.T) {
	in := []byte("application: shop\nservices:\n  web: {command: [x]}\n")
	app, _, err := Parse("", in)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		service string
		n       int
		want    string
	}{{"wbe", 1, "but web"}, {"web", -1, "0 to"}, {"web", api.MaxReplicas + 1, "0 to"}} {
		if _, _, err := Scaled(in, app, tc.service, tc.n); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s to %d: %v", tc.service, tc.n, err)
		}
	}
}

// Whatever the file looks like, the new text says what was asked for.
func TestScaledSamples(t *testing.T) {
	for file, source := range samples(t, "accept/*") {
		app, _, err := Parse(file, source)
		if err != nil {
			continue
		}
		for _, name := range app.ServiceNames() {
			text, next, err := Scaled(source, app, name, 17)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			got, _, err := Parse(file, text)
			if err != nil || got.Services[name].Replicas != next.Services[name].Replicas {
				t.Errorf("%s: %v\n%s", file, err, text)
			}
		}
	}
}
