package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

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
		{"a name", "apiVersion: v1\nkind: Pod\nmetadata: {name: My_Web}\nspec: {containers: [{name: a, image: b}]}\n", 3, `"My_Web" is not a name`},
		{"no spec", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n", 1, "has no spec"},
		{"no containers", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: []}\n", 4, "has no containers"},
		{"no image", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: web\n", 6, "has no image"},
		{"two of a name", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: a, image: b}\n  - {name: a, image: c}\n", 7, "is the name of another container"},
		{"a bad image", strings.Replace(podText("", ""), "nginx", "'two words'", 1), 6, "is not the name of an image"},
		{"the same twice", podText("", "") + "---\n" + podText("", ""), 11, "Pod web is there already, in in.yaml:3"},
		{"a text for a number", podText("    ports: [{containerPort: http}]\n", ""), 8, `"http" is not a whole number`},
		{"a port", podText("    ports: [{containerPort: 99999}]\n", ""), 8, "99999 is not a port"},
		{"a number for a text", podText("    env: [{name: A, value: 1}]\n", ""), 8, "it is not text: write it in quotes"},
		{"a truth value for a text", podText("    env:\n    - name: A\n      value: true\n", ""), 10, "it is not text"},
		{"an amount", podText("    resources: {limits: {memory: 1Gb}}\n", ""), 8, `"1Gb" is not an amount`},
		{"a huge exponent", podText("    resources: {limits: {cpu: 1e-1000}}\n", ""), 8, `"1e-1000" is not an amount`},
		{"a huge exponent, as a text", podText("    resources: {limits: {memory: '1E+001'}}\n", ""), 8, `"1E+001" is not an amount`},
		{"a long amount", podText("    resources: {limits: {cpu: 0."+strings.Repeat("1", 63)+"}}\n", ""), 8, "is not an amount"},
		{"less than nothing", podText("    resources: {requests: {cpu: -1}}\n", ""), 8, "is less than none"},
		{"more than the limit", podText("    resources:\n      requests: {memory: 2Gi}\n      limits: {memory: 1Gi}\n", ""), 9, "is more than the limit"},
		{"no list", podText("    ports: {containerPort: 80}\n", ""), 8, "it is not a list"},
		{"no mapping", podText("    securityContext: [a]\n", ""), 8, "it is not a mapping"},
		{"an unknown volume", podText("    volumeMounts: [{name: data, mountPath: /data}]\n", ""), 8, `there is no volume "data"`},
		{"a probe of nothing", podText("    livenessProbe: {periodSeconds: 5}\n", ""), 8, "the probe asks nothing"},
		{"an unknown port", podText("    livenessProbe: {httpGet: {path: /, port: web}}\n", ""), 8, `has no port "web"`},
		{"a policy", podText("", "  restartPolicy: Sometimes\n"), 8, `"Sometimes" is not one of its values (Always, OnFailure, Never)`},
		{"a pull policy", podText("    imagePullPolicy: Often\n", ""), 8, `"Often" is not one of its values (Always, Never, IfNotPresent)`},
		{"Windows", podText("", "  os: {name: windows}\n"), 8, "Verge runs no containers of Windows"},
		{"no selector", deployment + pod, 4, "has no selector"},
		{"another selector", deployment + "  selector: {matchLabels: {app: db}}\n" + pod, 6, "does not select the labels of its own pods"},
		{"replicas", strings.Replace(deployment, "replicas: 1", "replicas: -1", 1) + "  selector: {matchLabels: {app: web}}\n" + pod, 5, "-1 is less than none"},
		{"too many", strings.Replace(deployment, "replicas: 1", "replicas: 20000", 1) + "  selector: {matchLabels: {app: web}}\n" + pod, 9, "20000"},
		{"a job that restarts", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  template:\n    spec: {containers: [{name: a, image: b}]}\n", 6, "that of a Job is Never or OnFailure"},
		{"base64", podText("", "") + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: '%%hunter2'}\n", 12, "it is not written in base64"},
		{"a Service alone", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}], selector: {a: b}}\n", 1, "has nothing that runs"},
		{"a port of a Service", podText("", "") + "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports: [{port: 0}]\n", 13, "0 is not a port"},
		{"an unknown kind alone", "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: t}\n", 1, "has nothing that runs"},
		{"a template of Helm", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n{{- if .Values.x }}\nspec: {}\n{{- end }}\n", 6, "helm template"},
		{"a value of Helm", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n", 4, "helm template"},
		{"a value of Helm in quotes", strings.Replace(podText("", ""), "nginx", "'{{ .Values.image }}:1'", 1), 7, "is for Helm to fill in"},
		{"a kustomization with its kind", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n", 1, "kubectl kustomize . | verge import -"},
		{"a chart", "apiVersion: v2\nname: shop\nversion: 0.1.0\n", 1, "is a chart of Helm: helm template NAME CHART | verge import -"},
		{"a list of texts", "apiVersion: v1\nkind: List\nitems: [a]\n", 3, "is not an object of Kubernetes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			importertest.Refused(t, c.text, c.line, c.why)
		})
	}
	// No value of a Secret or a variable is in what is said.
	res, _ := importertest.Of(podText("    env: [{name: A, value: 4711}]\n", "")+"---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: 4711}\ndata: {b: hunter2!}\n", importer.Options{})
	if text := fmt.Sprint(res.Notes); strings.Contains(text, "4711") || strings.Contains(text, "hunter2") {
		t.Errorf("a value shows: %s", text)
	}
}

// TestUnknownKubernetes: what Verge does not know is named with its line, and the rest
// goes on.
func TestUnknownKubernetes(t *testing.T) {
	res, err := importertest.Of(podText("    imagge: x\n    Image: y\n", "")+
		"---\napiVersion: example.org/v1\nkind: Thing\nmetadata: {name: t}\n"+
		"---\napiVersion: apps/v9\nkind: Deployment\nmetadata: {name: d}\n"+
		"---\napiVersion: v1\nkind: Deployment\nmetadata: {name: e}\n"+
		"---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}\n- apiVersion: rbac.authorization.k8s.io/v1\n  kind: Role\n  metadata: {name: r}\n", importer.Options{})
	if err != nil || len(res.Apps) != 1 || !res.Lost {
		t.Fatalf("%v, %v", err, res.Notes)
	}
	importertest.Says(t, res, importer.Lost, 8, "imagge: is not a field of Kubernetes here")
	importertest.Says(t, res, importer.Lost, 9, "it is written image")
	importertest.Says(t, res, importer.Lost, 12, "Thing t of \"example.org/v1\" is not carried over")
	importertest.Says(t, res, importer.Lost, 15, `"apps/v9" is not a version of Deployment`)
	importertest.Says(t, res, importer.Lost, 19, "it is apiVersion: apps/v1, kind: Deployment")
	importertest.Says(t, res, importer.Said, 26, "is used by no container")
	importertest.Says(t, res, importer.Lost, 28, "Role r is not carried over")
}
