package compose_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

// manyServices are more than an application has.
func manyServices() string {
	var b strings.Builder
	b.WriteString("services:\n")
	for i := range api.MaxServices + 1 {
		fmt.Fprintf(&b, "  s%d: {image: a, depends_on: [s%d]}\n", i, max(i-1, 0))
	}
	return b.String()
}

// TestBadCompose: what compose refuses is refused, at its line.
func TestBadCompose(t *testing.T) {
	const web = "services:\n  web:\n    image: a\n"
	const two = "services:\n  a: {image: a, depends_on: [web]}\n  web:\n    image: a\n"
	for _, c := range []struct {
		name, text string
		line       int
		why        string
	}{
		{"no services", "services: {}\ninclude: []\n", 1, "has no services"},
		{"an unknown key", "services:\n  web:\n    image: a\n    imagge: b\n", 4, "is not a field"},
		{"a wrong type", "services:\n  web:\n    image: a\n    ports: 80\n", 4, "ports"},
		{"no image", "services:\n  web:\n    command: x\n", 2, "neither an image nor a build"},
		{"a bad port", "services:\n  web:\n    image: a\n    ports: ['99999:80']\n", 4, "99999"},
		{"an undefined volume", "services:\n  web:\n    image: a\n    volumes: ['data:/data']\n", 2, "data"},
		{"an undefined secret", "services:\n  web:\n    image: a\n    secrets: [x]\n", 2, "x"},
		{"an undefined dependency", "services:\n  web:\n    image: a\n    depends_on: [db]\n", 2, "db"},
		{"a circle", "services:\n  a: {image: a, depends_on: [b]}\n  b: {image: b, depends_on: [a]}\n", 2, "cycle"},
		{"a circle of bases", "services:\n  a: {image: a}\n  b: {extends: b}\n", 3, "it extends itself"},
		{"a bad number", "services:\n  web:\n    image: a\n    deploy: {replicas: many}\n", 4,
			`is not a valid compose file: "many" is not a number`},
		{"a bad duration", "services:\n  web:\n    image: a\n    stop_grace_period: soon\n", 4,
			`is not a valid compose file: invalid duration "soon"`},
		{"a bad memory", "services:\n  web:\n    image: a\n    mem_limit: lots\n", 4, "lots"},
		{"a key at the top", web + "scale: 1\nservice: 2\n", 4, "no field at the top is called 's"},
		{"a bad check", web + "    healthcheck:\n      interval: 1s\n      test: [FOO, x]\n", 6,
			"must start either by"},
		{"less than none", two + "    healthcheck:\n      test: x\n      retries: -1\n", 7, "overflows uint"},
		{"a bad host port", two + "    ports:\n    - '80:80'\n    - '-1:80'\n", 7, "invalid hostPort"},
		{"an open quote", two + "    restart: always\n    command: \"sh -c 'x\"\n", 6, "invalid command line"},
		{"a policy", web + "    restart: sometimes\n", 4, `"sometimes" is not a policy (no, always,`},
		{"a policy in capitals", web + "    restart: Always\n", 4, `"Always" is not a policy`},
		{"a policy that is counted", web + "    restart: always:3\n", 4, `"always:3" is not a policy`},
		{"no times", web + "    restart: on-failure:abc\n", 4, `"on-failure:abc" is not a policy`},
		{"times below none", web + "    restart: on-failure:-1\n", 4, `"on-failure:-1" is not a policy`},
		{"no memory", web + "    mem_limit: -1\n", 4, "is not an amount of memory"},
		{"too much memory", web + "    mem_limit: 99999999999999999999g\n", 4, "is not an amount of memory"},
		{"too much to deploy", web + "    deploy:\n      resources:\n        limits: {memory: 99999999999999999999g}\n",
			6, "is not an amount of memory"},
		{"too much reserved", web + "    mem_reservation: 9999999999g\n", 4, "is not an amount of memory"},
		{"too much shared", web + "    shm_size: 99999999999999999999g\n", 4, "is not an amount of memory"},
		{"nothing shared", web + "    shm_size: -5\n", 4, "is not an amount of memory"},
		{"processors", web + "    cpus: 1e300\n", 4, "is not a number of processors from 0 to 4096"},
		{"processors below none", web + "    deploy:\n      resources:\n        limits: {cpus: '-1'}\n", 6,
			"is not a number of processors"},
		{"processors reserved", web + "    deploy:\n      resources:\n        reservations: {cpus: '-1'}\n", 6,
			"is not a number of processors"},
		{"another file", "services:\n  web:\n    extends:\n      file: other.yaml\n      service: web\n", 4,
			"names another file"},
		{"included files", "include: [other.yaml]\nservices: {a: {image: b}}\n", 1,
			"names another file, and the folder of this one is not known"},
		{"the first form", "web:\n  image: a\ndb:\n  build: .\n", 1, "is the first form of compose files"},
		{"another network", "services:\n  web:\n    image: a\n    networks: [default, nope]\n", 2,
			"undefined network nope"},
		{"many services", manyServices(), 1, "there are 1001"},
		{"two documents", "services: {a: {image: b}}\n---\nservices: {c: {image: d}}\n", 3, "a second document begins"},
		{"a variable", "services:\n  web:\n    image: shop:${TAG}\n", 3, "refers to ${TAG}, which nothing sets"},
		{"a bad template", "services:\n  web:\n    image: shop:${TAG\n", 3, "write a dollar as $$"},
		{"a bad image", "services:\n  web:\n    image: 'two words'\n", 2, "is not the name of an image"},
		{"too much", "services:\n  web:\n    image: a\n    scale: 20000\n", 2, "20000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			importertest.Refused(t, c.text, c.line, c.why)
		})
	}
}

// TestComposeOutOfRange: what is carried over otherwise than it is written is said.
func TestComposeOutOfRange(t *testing.T) {
	res, err := importertest.Of("services:\n  web:\n    image: a\n    restart: on-failure:99999\n    healthcheck:\n"+
		"      test: x\n      retries: 1001\n    tmpfs:\n    - /a:size=-5\n    - /b:size=999999999999999g\n"+
		"    - /c:size=1g\n"+
		"  db:\n    image: b\n    deploy:\n      restart_policy:\n        condition: sometimes\n"+
		"        max_attempts: 5000\n", importer.Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	importertest.Says(t, res, importer.Lost, 4, "is 1000 times, the most in Verge")
	importertest.Says(t, res, importer.Lost, 7, "is 1000, the most in Verge")
	importertest.Says(t, res, importer.Lost, 9, `"size=-5" is not carried over`)
	importertest.Says(t, res, importer.Lost, 10, "is not an amount of memory that can be given here; it gets 64Mi")
	importertest.Says(t, res, importer.Lost, 16, `"sometimes" is none (none, on-failure, any)`)
	importertest.Says(t, res, importer.Lost, 17, "is 1000, the most in Verge")
	if n := len(res.Notes); n != 7 { // and the limits of memory
		t.Errorf("%d notes: %v", n, res.Notes)
	}
}
