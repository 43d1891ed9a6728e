package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	reference "github.com/compose-spec/compose-go/v2/template"
)

// TestTemplate: references are replaced as compose-go replaces them.
func TestTemplate(t *testing.T) {
	vars := map[string]string{"A": "a", "E": "", "N": "x$y", "_1": "one"}
	find := func(name string) (string, bool) { v, set := vars[name]; return v, set }
	for _, text := range []string{
		"", "plain", "$", "a$", "$$", "$$A", "$A", "${A}", "$A$A", "x${A}y$_1z", "$1", "$ A", "${A}${E}|${X}|", "$$${A}", "${N}",
		"${A:-d}", "${E:-d}", "${E-d}", "${X:-d}", "${X-d}", "${X:-}", "${A:+r}", "${E:+r}", "${E+r}", "${X+r}", "${X:+r}",
		"${A:?m}", "${E?m}", "${E:?m}", "${X:?m}", "${X?}", "${X:-${A}}", "${X:-${Y:-d}}", "${A:+${N}}", "${X:-a b:c}", "${X:-$$}",
		"${", "${A", "${}", "${1}", "${A b}", "${A!}", "${a}", "${X:-{}}", "{A}", "}${A}{",
	} {
		want, wantErr := reference.SubstituteWithOptions(text, find, reference.WithoutLogging)
		tpl := &template{lookup: find}
		got, err := tpl.expand(text, 0)
		if (err != nil) != (wantErr != nil) || err == nil && got != want {
			t.Errorf("%q becomes %q, %v; compose-go makes %q, %v of it", text, got, err, want, wantErr)
		}
	}
	tpl := &template{lookup: find}
	if _, err := tpl.expand("$X ${Y:-${Z}} ${W:-d} ${A:-$V}", 0); err != nil || !slices.Equal(tpl.unset, []string{"X", "Z"}) {
		t.Errorf("unset are %q, %v", tpl.unset, err)
	}
	var needed *neededError
	if _, err := tpl.expand("${X:?because of $A}", 0); !errors.As(err, &needed) || needed.name != "X" || needed.message != "because of a" {
		t.Errorf("%v", err)
	}
}

// TestComposeBounds: what would keep compose-go busy for hours is refused at once.
func TestComposeBounds(t *testing.T) {
	var dense strings.Builder
	dense.WriteString("services:\n")
	for i := range 60 { // 2^60 ways lead through it
		fmt.Fprintf(&dense, "  s%d: {image: a, depends_on: {", i)
		for j := range i {
			fmt.Fprintf(&dense, "s%d: {condition: service_started}, ", j)
		}
		dense.WriteString("}}\n")
	}
	var many strings.Builder
	many.WriteString("services:\n  a:\n    image: a\n    labels:\n")
	for i := range maxComposeValues {
		fmt.Fprintf(&many, "      l%d: x\n", i)
	}
	for _, c := range []struct {
		name, text string
		line       int
		why        string
	}{
		{"ways", dense.String(), 18, "more than 100000 ways"},
		{"a circle of three", "services:\n  a: {image: a, depends_on: [b]}\n  b: {image: b, depends_on: {c: {condition: service_healthy}}}\n  c: {image: c, depends_on: [b]}\n", 3, "dependency cycle detected: b -> c -> b"},
		{"ports", "services:\n  a:\n    image: a\n    ports: ['1-65535:1-65535/udp']\n", 4, "at most 1000 ports"},
		{"expose", "services:\n  a:\n    image: a\n    expose: ['1-600', '700-1300']\n", 4, "at most 1000 ports"},
		{"a long command", "services:\n  a:\n    image: a\n    command: " + strings.Repeat("a", 40_000) + "\n", 4, "is too long for a text"},
		{"many values", many.String(), 1, "has more than 20000 values"},
		{"deep references", "services:\n  a:\n    image: a\n    user: '" + strings.Repeat("${A:-", 30) + strings.Repeat("}", 30) + "'\n", 4, "write a dollar as $$"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.text, c.line, c.why)
		})
	}
	// What people write goes through: many references in one text, and chains.
	res, err := of("services:\n  a:\n    image: a\n    environment:\n      X: '"+strings.Repeat("${A:-x}", 50_000)+"'\n", Options{})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), strings.Repeat("x", 50_000)) {
		t.Errorf("%v, %v", err, res.Notes)
	}
}

// TestProfiles: services with profiles are there where those are asked for.
func TestProfiles(t *testing.T) {
	const text = "services:\n  web: {image: a}\n  debug: {image: b, profiles: [debug]}\n  tool: {image: c, profiles: [tools, more]}\n"
	for _, c := range []struct {
		asked []string
		want  []string
	}{{nil, []string{"web"}}, {[]string{"more"}, []string{"tool", "web"}}, {[]string{"*"}, []string{"debug", "tool", "web"}}} {
		res, err := of(text, Options{Profiles: c.asked})
		if err != nil {
			t.Fatal(err, res.Notes)
		}
		for _, name := range []string{"debug", "tool", "web"} {
			if has := strings.Contains(string(res.Apps[0].Source), "\n  "+name+":\n"); has != slices.Contains(c.want, name) {
				t.Errorf("with %q: %s\n%s", c.asked, name, res.Apps[0].Source)
			}
		}
	}
}

// TestBeside: of a file .env no value that is called as a secret, nor one that has such a value
// in it, is in what is made or said; what is given is.
func TestBeside(t *testing.T) {
	const compose = `services:
  web:
    image: shop:${TAG}
    env_file: [.env, other.env]
    environment: {URL: "redis://${REDIS_PASSWORD}@cache", KEY_OF: "${PLAIN}", ADMIN_PW: "${PLAIN}"}
    command: serve ${REDIS_PASSWORD}
    volumes: ["./other.env:/other.env:ro", "./key.pem:/key.pem:ro"]
    configs: [{source: x, target: /x}]
configs: {x: {environment: REDIS_PASSWORD}}
`
	files := map[string]string{
		".env":      "TAG=1\nREDIS_PASSWORD=hunter2hunter\nPLAIN=plain\nMAIL=smtp://me:battery@mail\n",
		"other.env": "A=1\nOWN_TOKEN=staplestaple\nLINK=https://x/staplestaple/y\nR=${REDIS_PASSWORD}\n",
		"key.pem":   "-----BEGIN PRIVATE KEY-----\nMIIcorrect\n-----END PRIVATE KEY-----\n",
	}
	s := Source{Name: "compose.yaml", Data: []byte(compose), Folder: "shop", Open: func(path string) ([]byte, error) {
		if text, there := files[path]; there {
			return []byte(text), nil
		}
		return nil, errors.New("there is none")
	}}
	res, err := Import([]Source{s}, Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	out := string(res.Apps[0].Source) + fmt.Sprint(res.Notes)
	for _, value := range []string{"hunter2", "staple", "battery", "MIIcorrect"} {
		if strings.Contains(out, value) {
			t.Errorf("%s shows:\n%s", value, out)
		}
	}
	for _, want := range []string{"image: shop:1", "KEY_OF: plain", "ADMIN_PW: admin-pw", "OWN_TOKEN: own-token", "LINK: link", "R: r\n", "MAIL: mail", "A: \"1\"", "secret: other-env", "secret: key-pem", "REDIS_PASSWORD: redis-password"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	says(t, res, Said, 8, "becomes the secret redis-password")
	res, err = Import([]Source{s}, Options{Variables: map[string]string{"TAG": "2", "REDIS_PASSWORD": "given", "PLAIN": "p"}})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), "redis://given@cache") || !strings.Contains(string(res.Apps[0].Source), "image: shop:2") {
		t.Errorf("%v\n%s", err, res.Apps[0].Source)
	}
	files[".env"] = "not a list\n"
	res, err = Import([]Source{s}, Options{})
	if !errors.Is(err, ErrRefused) {
		t.Errorf("a broken .env: %v", err)
	}
	says(t, res, Refused, 1, "cannot be read")
}

// files is what there is in the folder of a compose file.
type files map[string]string

func (f files) open(name string) ([]byte, error) {
	text, there := f[name]
	if !there {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

// TestBadJoins: files that name others which cannot or must not be read are refused at
// their line, and files that name each other have an end.
func TestBadJoins(t *testing.T) {
	const one = "services: {a: {image: b}}\n"
	deep, many := files{}, files{}
	var list strings.Builder
	for i := range 150 {
		deep[fmt.Sprintf("f%d.yaml", i)] = fmt.Sprintf("include: [f%d.yaml]\n", i+1)
		many[fmt.Sprintf("f%d.yaml", i)] = fmt.Sprintf("services: {s%d: {image: b}}\n", i)
		fmt.Fprintf(&list, "- f%d.yaml\n", i)
	}
	big := files{}
	for i := range 10 {
		big[fmt.Sprintf("f%d.yaml", i)] = one + strings.Repeat("#", MaxSourceBytes-100)
	}
	for name, c := range map[string]struct {
		text string
		more files
		file string
		line int
		why  string
	}{
		"missing":           {"include:\n- x.yaml\n", nil, "in.yaml", 2, "cannot be read below"},
		"absolute":          {"include: [/etc/x.yaml]\n", nil, "in.yaml", 1, "is not below the folder"},
		"above":             {"include: [a/../../x.yaml]\n", nil, "in.yaml", 1, "is not below the folder"},
		"home":              {"include: [~/x.yaml]\n", nil, "in.yaml", 1, "is not below the folder"},
		"remote":            {"include: ['https://example.org/x.yaml']\n", nil, "in.yaml", 1, "is not on this machine"},
		"git":               {"include: ['git@example.org:a/b.git']\n", nil, "in.yaml", 1, "is not on this machine"},
		"a variable":        {"include: ['${X}.yaml']\n", nil, "in.yaml", 1, "has a variable in it"},
		"several for one":   {"include:\n- path: [a.yaml, b.yaml]\n", nil, "in.yaml", 2, "several files for one"},
		"nothing":           {"include: [[]]\n", nil, "in.yaml", 1, "names no file"},
		"itself":            {"include: [in.yaml]\n" + one, nil, "in.yaml", 1, "is included by itself"},
		"a circle":          {"include: [x.yaml]\n" + one, files{"x.yaml": "include: [sub/y.yaml]\n", "sub/y.yaml": "include:\n- ../x.yaml\n"}, "sub/y.yaml", 2, "is included by itself"},
		"deep":              {"include: [f0.yaml]\n", deep, "f9.yaml", 1, "more than 10 files deep"},
		"many":              {"include:\n" + list.String(), many, "in.yaml", 102, "more than 100 other files"},
		"big":               {"include:\n" + strings.Join(strings.SplitAfter(list.String(), "\n")[:10], ""), big, "in.yaml", 6, "more than 8 MiB together"},
		"rubbish":           {"include: [x.yaml]\n", files{"x.yaml": "a: [\n"}, "x.yaml", 2, ""},
		"a list":            {"include: [x.yaml]\n", files{"x.yaml": "- a\n"}, "in.yaml", 1, "is no compose file"},
		"wrong services":    {"include: [x.yaml]\n", files{"x.yaml": "services: [a]\n"}, "x.yaml", 1, "must be a mapping"},
		"two of a name":     {"include: [x.yaml]\nservices: {a: {image: c}}\n", files{"x.yaml": one}, "in.yaml", 1, "has services.a, and so has another file"},
		"wrong there":       {"include: [x.yaml]\n" + one, files{"x.yaml": "services:\n  z:\n    image: x\n    imagge: y\n"}, "x.yaml", 4, "is no field"},
		"other variables":   {"include: [x/c.yaml, y/c.yaml]\n", files{"x/c.yaml": one, "y/c.yaml": one, "x/.env": "A=1\n", "y/.env": "A=2\n"}, "in.yaml", 1, "another value of ${A}"},
		"bad variables":     {"include: [x/c.yaml]\n", files{"x/c.yaml": one, "x/.env": "\x00"}, "in.yaml", 1, "cannot be read: mend it"},
		"no base":           {"services:\n  a:\n    extends:\n      file: x.yaml\n      service: nope\n", files{"x.yaml": one}, "in.yaml", 4, `no service "nope"`},
		"no file":           {"services:\n  a:\n    extends:\n      file: y.yaml\n      service: a\n", nil, "in.yaml", 4, "cannot be read below"},
		"a circle of bases": {"services: {a: {extends: {file: x.yaml, service: a}}}\n", files{"x.yaml": "services:\n  a:\n    extends: b\n  b:\n    extends: {file: x.yaml, service: a}\n"}, "x.yaml", 5, "extends itself"},
		"no image":          {"services:\n  z:\n    extends: {file: x.yaml, service: a}\n", files{"x.yaml": "services: {a: {restart: always}}\n"}, "in.yaml", 2, "neither an image nor a build, nor has what it extends"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := Import([]Source{{Name: "in.yaml", Data: []byte(c.text), Folder: "shop", Open: c.more.open}}, Options{})
			if !errors.Is(err, ErrRefused) || len(res.Apps) > 0 {
				t.Errorf("it was not refused: %v", err)
			}
			if !slices.ContainsFunc(res.Notes, func(n Note) bool {
				return n.Level == Refused && n.File == c.file && n.Line == c.line && strings.Contains(n.Text, c.why)
			}) {
				t.Errorf("no %q at %s:%d; there are %v", c.why, c.file, c.line, res.Notes)
			}
		})
	}
}

// TestIncludedOften: a file that is included on very many ways is read and taken once.
func TestIncludedOften(t *testing.T) {
	all := files{"f8.yaml": "services: {last: {image: b}}\n"}
	for i := range 8 {
		all[fmt.Sprintf("f%d.yaml", i)] = "include: [" + strings.Repeat(fmt.Sprintf("f%d.yaml, ", i+1), 500) + "]\n"
	}
	res, err := Import([]Source{{Name: "in.yaml", Data: []byte(all["f0.yaml"]), Folder: "shop", Open: all.open}}, Options{})
	if err != nil || len(res.Apps) != 1 || !strings.Contains(string(res.Apps[0].Source), "last:") {
		t.Errorf("%v, %v", err, res.Notes)
	}
}

// TestInheritedSecrets: what extends a service of the same file has its secrets, too.
func TestInheritedSecrets(t *testing.T) {
	res, err := of("services:\n  a: {image: x, environment: {KEY_TOKEN: '${KEY_TOKEN}'}}\n  b: {extends: a}\n  c: {extends: {service: b}, environment: {KEY_TOKEN: own}}\n", Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	if text := string(res.Apps[0].Source); strings.Count(text, "KEY_TOKEN: key-token") != 2 || strings.Count(text, "KEY_TOKEN: own") != 1 {
		t.Errorf("%s", text)
	}
}
