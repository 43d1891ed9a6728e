package importer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
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
		{"UTF-16", "\xff\xfes\x00e\x00", 0, "is written in UTF-16"},
		{"a tab", "services:\n\tweb: {image: a}\n", 2, "indented by a tab"},
		{"not UTF-8", "services: \xff\xfe", 0, "is no text in UTF-8"},
		{"a kustomization", "resources:\n- a.yaml\n", 1, "kustomize build"},
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
		{"a tag", "services: !reset {}\n", 1, `the tag "!reset" is not understood: let docker compose put the files into one: docker compose config`},
		{"another tag", "services: !mine {}\n", 1, `the tag "!mine" is not understood: leave it out`},
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
		{"an unknown key", "services:\n  web:\n    image: a\n    imagge: b\n", 4, "is no field"},
		{"a wrong type", "services:\n  web:\n    image: a\n    ports: 80\n", 4, "ports"},
		{"no image", "services:\n  web:\n    command: x\n", 2, "neither an image nor a build"},
		{"a bad port", "services:\n  web:\n    image: a\n    ports: ['99999:80']\n", 4, "99999"},
		{"an undefined volume", "services:\n  web:\n    image: a\n    volumes: ['data:/data']\n", 2, "data"},
		{"an undefined secret", "services:\n  web:\n    image: a\n    secrets: [x]\n", 2, "x"},
		{"an undefined dependency", "services:\n  web:\n    image: a\n    depends_on: [db]\n", 2, "db"},
		{"a circle", "services:\n  a: {image: a, depends_on: [b]}\n  b: {image: b, depends_on: [a]}\n", 2, "cycle"},
		{"a circle of bases", "services:\n  a: {image: a}\n  b: {extends: b}\n", 3, "it extends itself"},
		{"a bad number", "services:\n  web:\n    image: a\n    deploy: {replicas: many}\n", 4, `is no valid compose file: "many" is no number`},
		{"a bad duration", "services:\n  web:\n    image: a\n    stop_grace_period: soon\n", 4, `is no valid compose file: invalid duration "soon"`},
		{"a bad memory", "services:\n  web:\n    image: a\n    mem_limit: lots\n", 4, "lots"},
		{"a key at the top", web + "scale: 1\nservice: 2\n", 4, "no field at the top is called 's"},
		{"a bad check", web + "    healthcheck:\n      interval: 1s\n      test: [FOO, x]\n", 6, "must start either by"},
		{"less than none", two + "    healthcheck:\n      test: x\n      retries: -1\n", 7, "overflows uint"},
		{"a bad host port", two + "    ports:\n    - '80:80'\n    - '-1:80'\n", 7, "invalid hostPort"},
		{"an open quote", two + "    restart: always\n    command: \"sh -c 'x\"\n", 6, "invalid command line"},
		{"a policy", web + "    restart: sometimes\n", 4, `"sometimes" is no policy (no, always,`},
		{"a policy in capitals", web + "    restart: Always\n", 4, `"Always" is no policy`},
		{"a policy that is counted", web + "    restart: always:3\n", 4, `"always:3" is no policy`},
		{"no times", web + "    restart: on-failure:abc\n", 4, `"on-failure:abc" is no policy`},
		{"times below none", web + "    restart: on-failure:-1\n", 4, `"on-failure:-1" is no policy`},
		{"no memory", web + "    mem_limit: -1\n", 4, "is no amount of memory"},
		{"too much memory", web + "    mem_limit: 99999999999999999999g\n", 4, "is no amount of memory"},
		{"too much to deploy", web + "    deploy:\n      resources:\n        limits: {memory: 99999999999999999999g}\n", 6, "is no amount of memory"},
		{"too much reserved", web + "    mem_reservation: 9999999999g\n", 4, "is no amount of memory"},
		{"too much shared", web + "    shm_size: 99999999999999999999g\n", 4, "is no amount of memory"},
		{"nothing shared", web + "    shm_size: -5\n", 4, "is no amount of memory"},
		{"processors", web + "    cpus: 1e300\n", 4, "is no number of processors from 0 to 4096"},
		{"processors below none", web + "    deploy:\n      resources:\n        limits: {cpus: '-1'}\n", 6, "is no number of processors"},
		{"processors reserved", web + "    deploy:\n      resources:\n        reservations: {cpus: '-1'}\n", 6, "is no number of processors"},
		{"another file", "services:\n  web:\n    extends:\n      file: other.yaml\n      service: web\n", 4, "names another file"},
		{"included files", "include: [other.yaml]\nservices: {a: {image: b}}\n", 1, "names another file, and the folder of this one is not known"},
		{"the first form", "web:\n  image: a\ndb:\n  build: .\n", 1, "is the first form of compose files"},
		{"another network", "services:\n  web:\n    image: a\n    networks: [default, nope]\n", 2, "undefined network nope"},
		{"many services", manyServices(), 1, "there are 1001"},
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

// TestComposeOutOfRange: what is carried over otherwise than it is written is said.
func TestComposeOutOfRange(t *testing.T) {
	res, err := of("services:\n  web:\n    image: a\n    restart: on-failure:99999\n    healthcheck:\n      test: x\n      retries: 1001\n    tmpfs:\n    - /a:size=-5\n    - /b:size=999999999999999g\n    - /c:size=1g\n"+
		"  db:\n    image: b\n    deploy:\n      restart_policy:\n        condition: sometimes\n        max_attempts: 5000\n", Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	says(t, res, Lost, 4, "is 1000 times, the most in Verge")
	says(t, res, Lost, 7, "is 1000, the most in Verge")
	says(t, res, Lost, 9, `"size=-5" is not carried over`)
	says(t, res, Lost, 10, "is no amount of memory that can be given here; it gets 64Mi")
	says(t, res, Lost, 16, `"sometimes" is none (none, on-failure, any)`)
	says(t, res, Lost, 17, "is 1000, the most in Verge")
	if n := len(res.Notes); n != 7 { // and the limits of memory
		t.Errorf("%d notes: %v", n, res.Notes)
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
	says(t, res, Lost, 4, "MODE has nothing in place of ${MODE}")
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
		{"microservices alone", `{"microservices": [{"microservice_name": "a"}]}`, 1, "belong to an application"},
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
	says(t, res, Lost, 3, "shape: is no field of Oakestra")
}

// podText is a pod with something in its container and something in its specification.
func podText(container, pod string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: web\n    image: nginx\n" + container + pod
}

// TestBadKubernetes: what Kubernetes refuses, or Verge cannot express, is refused with its line.
func TestBadKubernetes(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n"
	const pod = "  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: nginx}]}\n"
	for _, c := range []struct {
		name, text string
		line       int
		why        string
	}{
		{"no kind", "apiVersion: v1\nmetadata: {name: x}\n---\n" + podText("", ""), 1, "has no kind"},
		{"no name", "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {containers: [{name: a, image: b}]}\n", 3, "Pod has no name"},
		{"a name", "apiVersion: v1\nkind: Pod\nmetadata: {name: My_Web}\nspec: {containers: [{name: a, image: b}]}\n", 3, `"My_Web" is no name`},
		{"no spec", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n", 1, "has no spec"},
		{"no containers", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: []}\n", 4, "has no containers"},
		{"no image", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: web\n", 6, "has no image"},
		{"two of a name", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: a, image: b}\n  - {name: a, image: c}\n", 7, "is the name of another container"},
		{"a bad image", strings.Replace(podText("", ""), "nginx", "'two words'", 1), 6, "is not the name of an image"},
		{"the same twice", podText("", "") + "---\n" + podText("", ""), 11, "Pod web is there already, in in.yaml:3"},
		{"a text for a number", podText("    ports: [{containerPort: http}]\n", ""), 8, `"http" is no whole number`},
		{"a port", podText("    ports: [{containerPort: 99999}]\n", ""), 8, "99999 is no port"},
		{"a number for a text", podText("    env: [{name: A, value: 1}]\n", ""), 8, "it is no text: write it in quotes"},
		{"a truth value for a text", podText("    env:\n    - name: A\n      value: true\n", ""), 10, "it is no text"},
		{"an amount", podText("    resources: {limits: {memory: 1Gb}}\n", ""), 8, `"1Gb" is no amount`},
		{"a huge exponent", podText("    resources: {limits: {cpu: 1e-1000}}\n", ""), 8, `"1e-1000" is no amount`},
		{"a huge exponent, as a text", podText("    resources: {limits: {memory: '1E+001'}}\n", ""), 8, `"1E+001" is no amount`},
		{"a long amount", podText("    resources: {limits: {cpu: 0."+strings.Repeat("1", 63)+"}}\n", ""), 8, "is no amount"},
		{"less than nothing", podText("    resources: {requests: {cpu: -1}}\n", ""), 8, "is less than none"},
		{"more than the limit", podText("    resources:\n      requests: {memory: 2Gi}\n      limits: {memory: 1Gi}\n", ""), 9, "is more than the limit"},
		{"no list", podText("    ports: {containerPort: 80}\n", ""), 8, "it is no list"},
		{"no mapping", podText("    securityContext: [a]\n", ""), 8, "it is no mapping"},
		{"an unknown volume", podText("    volumeMounts: [{name: data, mountPath: /data}]\n", ""), 8, `there is no volume "data"`},
		{"a probe of nothing", podText("    livenessProbe: {periodSeconds: 5}\n", ""), 8, "the probe asks nothing"},
		{"an unknown port", podText("    livenessProbe: {httpGet: {path: /, port: web}}\n", ""), 8, `has no port "web"`},
		{"a policy", podText("", "  restartPolicy: Sometimes\n"), 8, `"Sometimes" is none of its values (Always, OnFailure, Never)`},
		{"a pull policy", podText("    imagePullPolicy: Often\n", ""), 8, `"Often" is none of its values (Always, Never, IfNotPresent)`},
		{"Windows", podText("", "  os: {name: windows}\n"), 8, "Verge runs no containers of Windows"},
		{"no selector", deployment + pod, 4, "has no selector"},
		{"another selector", deployment + "  selector: {matchLabels: {app: db}}\n" + pod, 6, "does not select the labels of its own pods"},
		{"replicas", strings.Replace(deployment, "replicas: 1", "replicas: -1", 1) + "  selector: {matchLabels: {app: web}}\n" + pod, 5, "-1 is less than none"},
		{"too many", strings.Replace(deployment, "replicas: 1", "replicas: 20000", 1) + "  selector: {matchLabels: {app: web}}\n" + pod, 9, "20000"},
		{"a job that restarts", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  template:\n    spec: {containers: [{name: a, image: b}]}\n", 6, "that of a Job is Never or OnFailure"},
		{"base64", podText("", "") + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: '%%hunter2'}\n", 12, "it is not written in base64"},
		{"a Service alone", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}], selector: {a: b}}\n", 1, "has nothing that runs"},
		{"a port of a Service", podText("", "") + "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports: [{port: 0}]\n", 13, "0 is no port"},
		{"an unknown kind alone", "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: t}\n", 1, "has nothing that runs"},
		{"a template of Helm", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n{{- if .Values.x }}\nspec: {}\n{{- end }}\n", 6, "helm template"},
		{"a value of Helm", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n", 4, "helm template"},
		{"a value of Helm in quotes", strings.Replace(podText("", ""), "nginx", "'{{ .Values.image }}:1'", 1), 7, "is for Helm to fill in"},
		{"a kustomization with its kind", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n", 1, "kubectl kustomize . | verge import -"},
		{"a chart", "apiVersion: v2\nname: shop\nversion: 0.1.0\n", 1, "is a chart of Helm: helm template NAME CHART | verge import -"},
		{"a list of texts", "apiVersion: v1\nkind: List\nitems: [a]\n", 3, "is no object of Kubernetes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.text, c.line, c.why)
		})
	}
	// No value of a Secret or a variable is in what is said.
	res, _ := of(podText("    env: [{name: A, value: 4711}]\n", "")+"---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: 4711}\ndata: {b: hunter2!}\n", Options{})
	if text := fmt.Sprint(res.Notes); strings.Contains(text, "4711") || strings.Contains(text, "hunter2") {
		t.Errorf("a value shows: %s", text)
	}
}

// TestUnknownKubernetes: what Verge does not know is named with its line, and the rest
// goes on.
func TestUnknownKubernetes(t *testing.T) {
	res, err := of(podText("    imagge: x\n    Image: y\n", "")+
		"---\napiVersion: example.org/v1\nkind: Thing\nmetadata: {name: t}\n"+
		"---\napiVersion: apps/v9\nkind: Deployment\nmetadata: {name: d}\n"+
		"---\napiVersion: v1\nkind: Deployment\nmetadata: {name: e}\n"+
		"---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}\n- apiVersion: rbac.authorization.k8s.io/v1\n  kind: Role\n  metadata: {name: r}\n", Options{})
	if err != nil || len(res.Apps) != 1 || !res.Lost {
		t.Fatalf("%v, %v", err, res.Notes)
	}
	says(t, res, Lost, 8, "imagge: is no field of Kubernetes here")
	says(t, res, Lost, 9, "it is written image")
	says(t, res, Lost, 12, "Thing t of \"example.org/v1\" is not carried over")
	says(t, res, Lost, 15, `"apps/v9" is no version of Deployment`)
	says(t, res, Lost, 19, "it is apiVersion: apps/v1, kind: Deployment")
	says(t, res, Said, 26, "is used by no container")
	says(t, res, Lost, 28, "Role r is not carried over")
}
