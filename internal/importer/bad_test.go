package importer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestBadSources: what is no source, or is made to cost much, is refused with its line.
func TestBadSources(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line       int
		why        string
	}{
		{"empty", "", 0, "says nothing"},
		{"comments", "# nothing\n---\n# at all\n", 0, "says nothing"},
		{"syntax", "a: [b\nc: d\n", 2, "is not valid YAML"},
		{"rubbish", "a: b\n\x01\x02 : [", 2, "control characters"},
		{"zero bytes", "services:\x00", 0, "is no text: it has zero bytes"},
		{"not UTF-8", "services: \xff\xfe", 0, "is no text in UTF-8"},
		{"a text", "hello", 1, "is neither a compose file"},
		{"a list", "- services\n", 1, "is neither a compose file"},
		{"a descriptor of Verge", "application: a\nservices: {a: {command: [x]}}\n", 1, "is a descriptor of Verge already"},
		{"10 MB", "services:\n" + strings.Repeat("# filler\n", 10<<20/9), 0, "has more than 2 MiB"},
		{"a bomb", bomb(), 1, "expands to too much"},
		{"a bomb of merges", mergeBomb(), 1, "expands to too much"},
		{"a snake", "services: &a\n  x: *a\n", 1, "contains itself"},
		{"an unknown alias", "services: *nobody\n", 1, "unknown anchor"},
		{"deep", "services: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), 1, "is nested more than 100 levels deep"},
		{"a key twice", "services:\n  web: {image: a}\n  db: {image: b}\n  web: {image: c}\n", 4, `the key "web" is in line 2 already`},
		{"a key of a list", "services:\n  ? [a]\n  : b\n", 2, "a key is no text"},
		{"a tag", "services: !reset {}\n", 1, `the tag "!reset" is not understood`},
		{"many documents", strings.Repeat("---\na: b\n", 2100), 4002, "has more than 2000 documents"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.text, c.line, c.why)
		})
	}
}

// bomb is nine levels of nine aliases.
func bomb() string {
	var b strings.Builder
	b.WriteString("services:\n  a0: &a0 lol\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return b.String()
}

func mergeBomb() string {
	var b strings.Builder
	b.WriteString("services:\n  a0: &a0 {k: v}\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, "  a%d: &a%d {l: *a%d, <<: *a%d, m: *a%d}\n", i, i, i-1, i-1, i-1)
	}
	return b.String()
}

// TestBadCompose: what compose refuses is refused, at its line.
func TestBadCompose(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line       int
		why        string
	}{
		{"no services", "services: {}\ninclude: []\n", 1, "has no services"},
		{"an unknown key", "services:\n  web:\n    image: a\n    imagge: b\n", 4, "is no field"},
		{"a wrong type", "services:\n  web:\n    image: a\n    ports: 80\n", 4, "ports"},
		{"no image", "services:\n  web:\n    command: x\n", 2, "neither an image nor a build"},
		{"a bad port", "services:\n  web:\n    image: a\n    ports: ['99999:80']\n", 4, "99999"},
		{"an undefined volume", "services:\n  web:\n    image: a\n    volumes: ['data:/data']\n", 2, "data"},
		{"an undefined secret", "services:\n  web:\n    image: a\n    secrets: [x]\n", 2, "x"},
		{"an undefined dependency", "services:\n  web:\n    image: a\n    depends_on: [db]\n", 2, "db"},
		{"a circle", "services:\n  a: {image: a, depends_on: [b]}\n  b: {image: b, depends_on: [a]}\n", 1, "cycle"},
		{"a bad memory", "services:\n  web:\n    image: a\n    mem_limit: lots\n", 4, "lots"},
		{"another file", "services:\n  web:\n    extends:\n      file: other.yaml\n      service: web\n", 4, "names another file"},
		{"included files", "include: [other.yaml]\nservices: {a: {image: b}}\n", 1, "names other files"},
		{"two documents", "services: {a: {image: b}}\n---\nservices: {c: {image: d}}\n", 3, "a second document begins"},
		{"a variable", "services:\n  web:\n    image: shop:${TAG}\n", 3, "refers to ${TAG}, which nothing sets"},
		{"a bad template", "services:\n  web:\n    image: shop:${TAG\n", 3, "write a dollar as $$"},
		{"a bad image", "services:\n  web:\n    image: 'two words'\n", 2, "is not the name of an image"},
		{"too much", "services:\n  web:\n    image: a\n    scale: 20000\n", 2, "20000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.text, c.line, c.why)
		})
	}
}

// TestEnvironmentIsNotLookedAt: neither the environment nor values of secrets get into
// what is made or said.
func TestEnvironmentIsNotLookedAt(t *testing.T) {
	t.Setenv("DB_PASSWORD", "hunter2")
	t.Setenv("MODE", "hunter2")
	const text = "services:\n  db:\n    image: postgres:16\n    environment: {DB_PASSWORD: '${DB_PASSWORD}', MODE: '${MODE}', DSN: 'postgres://u:${DB_PASSWORD}@db/x', TOKEN: s3cret}\n"
	res, err := of(text, Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	out := string(res.Apps[0].Source)
	if strings.Contains(out, "hunter2") || strings.Contains(fmt.Sprint(res.Notes), "hunter2") || strings.Contains(fmt.Sprint(res.Notes), "s3cret") {
		t.Errorf("a secret shows:\n%s\n%v", out, res.Notes)
	}
	for _, want := range []string{"DB_PASSWORD: db-password", "DSN: dsn"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	says(t, res, Lost, 4, "MODE is left out")
	res, err = of(text, Options{Variables: map[string]string{"DB_PASSWORD": "given", "MODE": "fast$x"}})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), "MODE: fast$x") || !strings.Contains(string(res.Apps[0].Source), "postgres://u:given@db/x") {
		t.Errorf("%v, %s", err, res.Apps[0].Source)
	}
}

// TestNames: what is no name becomes one, and stays unique.
func TestNames(t *testing.T) {
	for in, want := range map[string]string{"web": "web", "My_Web.App": "my-web-app", "9to5": "x9to5", "__": "x", "a--b": "a-b", "Ünï": "n", "-a-": "a"} {
		if got := label(in); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
	long := strings.Repeat("a", 70)
	if a, b := label(long+"x"), label(long+"y"); a == b || len(a) > 63 || len(b) > 63 {
		t.Errorf("%q and %q", a, b)
	}
	var n names
	if a, b, c := n.unique("a_b"), n.unique("a.b"), n.unique("a-b"); a != "a-b" || b != "a-b-2" || c != "a-b-3" {
		t.Errorf("%s, %s, %s", a, b, c)
	}
	// A name that can stay does, whatever comes before it.
	res, err := of("services:\n  A_B: {image: x}\n  a-b: {image: y}\n", Options{})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), "a-b:\n    runtime: container\n    image: y") {
		t.Errorf("%v, %s", err, res.Apps[0].Source)
	}
	says(t, res, Said, 2, "is called a-b-2")
}

// TestOneOfSeveralIsWrong: then nothing is made.
func TestOneOfSeveralIsWrong(t *testing.T) {
	good := Source{Name: "good.yaml", Data: []byte("services: {a: {image: b}}"), Folder: "good"}
	bad := Source{Name: "bad.yaml", Data: []byte("services: {a: {imagee: b}}"), Folder: "bad"}
	if res, err := Import([]Source{good, bad}, Options{}); !errors.Is(err, ErrRefused) || len(res.Apps) != 0 {
		t.Errorf("%v, %v", err, res.Apps)
	}
	res, err := Import([]Source{good, good}, Options{})
	if !errors.Is(err, ErrRefused) {
		t.Errorf("the same name twice: %v", err)
	}
	says(t, res, Refused, 1, "makes the application good")
	good2 := good
	good2.Folder = "other"
	if res, err := Import([]Source{good, good2}, Options{Namespace: "team-a"}); err != nil || len(res.Apps) != 2 || !strings.Contains(string(res.Apps[1].Source), "namespace: team-a") {
		t.Errorf("%v, %v", err, res.Notes)
	}
}

// TestBadOakestra: what Oakestra refuses, or Verge cannot express, is refused.
func TestBadOakestra(t *testing.T) {
	micro := func(fields string) string {
		return "{\"sla_version\": \"v2.0\", \"customerID\": \"a\", \"applications\": [{\"applicationID\": \"\", \"application_name\": \"a\", \"application_namespace\": \"n\", \"microservices\": [\n{" +
			"\"microservice_name\": \"m\", \"microservice_namespace\": \"n\", \"virtualization\": \"container\", \"code\": \"x\"\n, " + fields + "}]}]}"
	}
	for _, c := range []struct {
		name, text string
		line       int
		why        string
	}{
		{"another version", `{"sla_version": "v1.0", "customerID": "a", "applications": []}`, 1, `"v1.0" is not a version`},
		{"the version of the documentation", `{"api_version": "v0.3.2", "customerID": "a", "applications": []}`, 1, "has no sla_version"},
		{"no applications", `{"sla_version": "v2.0", "customerID": "a", "applications": []}`, 1, "is no list of applications"},
		{"no microservices", `{"sla_version": "v2.0", "customerID": "a", "applications": [{"application_name": "a", "microservices": []}]}`, 1, "there are no microservices"},
		{"a name", `{"sla_version": "v2.0", "customerID": "a", "applications": [{"application_name": "my-app", "microservices": []}]}`, 1, "1 to 30 letters and digits"},
		{"a long name", `{"sla_version": "v2.0", "customerID": "a", "applications": [{"application_name": "` + strings.Repeat("a", 31) + `", "microservices": []}]}`, 1, "1 to 30 letters and digits"},
		{"a unikernel", strings.Replace(micro(`"memory": 1`), `"container"`, `"unikernel"`, 1), 2, `Verge runs no "unikernel"`},
		{"no code", strings.Replace(micro(`"memory": 1`), `"code": "x"`, `"code": ""`, 1), 2, "has no code"},
		{"a text for a number", micro(`"memory": "lots"`), 3, "is no number"},
		{"less than nothing", micro(`"memory": -1`), 3, "is not an amount"},
		{"a port", micro(`"port": "http"`), 3, "is not a port"},
		{"a circle", micro(`"constraints": [{"type": "geo", "location": "here", "threshold": 1}]`), 3, "is no circle"},
		{"a rigidness", micro(`"constraints": [{"type": "geo", "location": "1,2", "threshold": 1, "rigidness": 7}]`), 3, "is more than 1"},
		{"an environment", micro(`"environment": ["A"]`), 3, "is not NAME=VALUE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.text, c.line, c.why)
		})
	}
	res, err := of(micro(`"vcpu": 2, "vcpus": 1, "shape": "round", "addresses": {"rr_ip": "192.168.0.1"}, "port": "80"`), Options{})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), "cpu: \"1\"") {
		t.Errorf("%v, %v", err, res.Apps)
	}
	says(t, res, Lost, 3, "vcpus counts")
	says(t, res, Lost, 3, "is not in 10.30.0.0/16")
	says(t, res, Lost, 3, "Verge has nothing like it")
}
