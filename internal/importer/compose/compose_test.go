package compose_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

// TestEnvironmentIsNotLookedAt: neither the environment nor values of secrets get into
// what is made or said.
func TestEnvironmentIsNotLookedAt(t *testing.T) {
	t.Setenv("DB_PASSWORD", "hunter2")
	t.Setenv("MODE", "hunter2")
	const text = "services:\n  db:\n    image: postgres:16\n" +
		"    environment: {DB_PASSWORD: '${DB_PASSWORD}', MODE: '${MODE}', DSN: 'postgres://u:${DB_PASSWORD}@db/x', " +
		"TOKEN: s3cret}\n"
	res, err := importertest.Of(text, importer.Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	out := string(res.Apps[0].Source)
	if strings.Contains(out, "hunter2") || strings.Contains(fmt.Sprint(res.Notes), "hunter2") ||
		strings.Contains(fmt.Sprint(res.Notes), "s3cret") {
		t.Errorf("a secret shows:\n%s\n%v", out, res.Notes)
	}
	for _, want := range []string{"DB_PASSWORD: db-password", "DSN: dsn"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	importertest.Says(t, res, importer.Lost, 4, "MODE has nothing in place of ${MODE}")
	res, err = importertest.Of(text,
		importer.Options{Variables: map[string]string{"DB_PASSWORD": "given", "MODE": "fast$x"}})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), "MODE: fast$x") ||
		!strings.Contains(string(res.Apps[0].Source), "postgres://u:given@db/x") {
		t.Errorf("%v, %s", err, res.Apps[0].Source)
	}
}

// TestNamesThatStay: a name that can stay does, whatever comes before it.
func TestNamesThatStay(t *testing.T) {
	res, err := importertest.Of("services:\n  A_B: {image: x}\n  a-b: {image: y}\n", importer.Options{})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), "a-b:\n    runtime: container\n    image: y") {
		t.Errorf("%v, %s", err, res.Apps[0].Source)
	}
	importertest.Says(t, res, importer.Said, 2, "is called a-b-2")
}

// TestProfiles: services with profiles are there where those are asked for.
func TestProfiles(t *testing.T) {
	const text = "services:\n  web: {image: a}\n  debug: {image: b, profiles: [debug]}\n" +
		"  tool: {image: c, profiles: [tools, more]}\n"
	for _, c := range []struct {
		asked []string
		want  []string
	}{{nil, []string{"web"}}, {[]string{"more"}, []string{"tool", "web"}},
		{[]string{"*"}, []string{"debug", "tool", "web"}}} {
		res, err := importertest.Of(text, importer.Options{Profiles: c.asked})
		if err != nil {
			t.Fatal(err, res.Notes)
		}
		for _, name := range []string{"debug", "tool", "web"} {
			if has := strings.Contains(string(res.Apps[0].Source), "\n  "+name+":\n"); has != slices.Contains(c.want,
				name) {
				t.Errorf("with %q: %s\n%s", c.asked, name, res.Apps[0].Source)
			}
		}
	}
}

// TestInheritedSecrets: what extends a service of the same file has its secrets, too.
func TestInheritedSecrets(t *testing.T) {
	res, err := importertest.Of("services:\n  a: {image: x, environment: {KEY_TOKEN: '${KEY_TOKEN}'}}\n"+
		"  b: {extends: a}\n  c: {extends: {service: b}, environment: {KEY_TOKEN: own}}\n", importer.Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	if text := string(res.Apps[0].Source); strings.Count(text, "KEY_TOKEN: key-token") != 2 ||
		strings.Count(text, "KEY_TOKEN: own") != 1 {
		t.Errorf("%s", text)
	}
}
