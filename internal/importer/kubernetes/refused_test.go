package kubernetes_test

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

// TestKubernetesRefuses: what its types can hold and its API server refuses is refused, with the
// line of it.
func TestKubernetesRefuses(t *testing.T) {
	t.Parallel()
	deployment := func(selector string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector:\n    matchExpressions: [" + selector + "]\n" +
			"  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: nginx}]}\n"
	}
	affinity := func(rule string) string { return podText("", "  affinity:\n"+rule) }
	service := func(spec string) string {
		return podText("", "") + "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports: [{port: 80}]\n  " + spec + "\n"
	}
	for _, c := range []struct {
		name, text string
		line       int
		why        string
	}{
		{"two handlers of a probe", podText("    livenessProbe:\n      httpGet: {port: 80}\n      tcpSocket: {port: 80}\n", ""), 10, "a probe has one of httpGet, tcpSocket"},
		{"two sources of a volume", podText("    volumeMounts: [{name: v, mountPath: /v}]\n", "  volumes:\n  - name: v\n    emptyDir: {}\n    hostPath: {path: /a}\n"), 11, "a volume has one of hostPath, emptyDir"},
		{"two sources of a volume that nothing mounts", podText("", "  volumes:\n  - name: v\n    emptyDir: {}\n    secret: {secretName: s}\n"), 11, "a volume has one of emptyDir, secret"},
		{"an operator", deployment("{key: app, operator: Foo}"), 6, `"Foo" is not an operator (In, NotIn, Exists, DoesNotExist)`},
		{"an operator of nodes", deployment("{key: app, operator: Gt, values: ['1']}"), 6, `"Gt" is not an operator`},
		{"no operator", deployment("{key: app}"), 6, `"" is not an operator`},
		{"in nothing", deployment("{key: app, operator: NotIn}"), 6, "NotIn has values"},
		{"values of Exists", deployment("{key: app, operator: Exists, values: [web]}"), 6, "Exists has no values"},
		{"values of DoesNotExist", deployment("{key: web, operator: DoesNotExist, values: [web]}"), 6, "DoesNotExist has no values"},
		{"an operator of an affinity", affinity("    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n        nodeSelectorTerms:\n        - matchExpressions: [{key: a, operator: Is, values: [b]}]\n"), 12, `"Is" is not one of its values (In, NotIn, Exists, DoesNotExist, Gt, Lt)`},
		{"an operator of an anti-affinity", affinity("    podAntiAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n      - topologyKey: kubernetes.io/hostname\n        labelSelector: {matchExpressions: [{key: a, operator: Is, values: [b]}]}\n"), 12, `"Is" is not an operator`},
		{"a type of a Service", service("type: Foo"), 14, `"Foo" is not one of its values (ClusterIP, `},
		{"a protocol of a Service", strings.Replace(service("type: ClusterIP"), "{port: 80}", "{port: 80, protocol: Foo}", 1), 13, `"Foo" is not one of its values (TCP, UDP, SCTP)`},
		{"a protocol in small letters", podText("    ports: [{containerPort: 80, protocol: tcp}]\n", ""), 8, `"tcp" is not one of its values (TCP, UDP, SCTP)`},
		{"an affinity of a Service", service("sessionAffinity: Cookie"), 14, `"Cookie" is not one of its values (ClientIP, None)`},
		{"what is not carried over", podText("", "  dnsPolicy: Mine\n"), 8, `"Mine" is not one of its values (`},
		{"a scheme", podText("    livenessProbe:\n      httpGet: {port: 80, scheme: https}\n", ""), 9, `"https" is not one of its values (HTTP, HTTPS)`},
		{"an effect", podText("", "  tolerations: [{key: a, effect: Never}]\n"), 8, `"Never" is not one of its values (NoSchedule, `},
		{"a type of an Ingress", podText("", "") + "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a}\nspec:\n  rules:\n  - host: a.example.org\n    http:\n      paths:\n      - {path: /, pathType: Some, backend: {service: {name: a, port: {number: 80}}}}\n", 17, `"Some" is not one of its values (Exact, Prefix, ImplementationSpecific)`},
		{"a policy of a CronJob", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec:\n  schedule: '* * * * *'\n  concurrencyPolicy: No\n  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}\n", 6, ""},
		{"a strategy of others", deployment("{key: app, operator: Exists}") + "  strategy: {type: OnDelete}\n", 10, `"OnDelete" is not a strategy of a Deployment (RollingUpdate, Recreate)`},
		{"a strategy of Deployments", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  updateStrategy: {type: Recreate}\n" +
			"  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: nginx}]}\n", 6, `"Recreate" is not a strategy of a StatefulSet (RollingUpdate, OnDelete)`},
		{"a namespace", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: A b\nspec: {containers: [{name: a, image: b}]}\n", 5, `"A b" is not a name of a namespace`},
		{"a namespace with a dot", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: a.b\nspec: {containers: [{name: a, image: b}]}\n", 5, `"a.b" is not a name of a namespace`},
		{"a digest", strings.Replace(podText("", ""), "nginx", "'nginx@sha256:zz'", 1), 6, `"sha256:zz" is no digest`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			importertest.Refused(t, c.text, c.line, c.why)
		})
	}
	// What it takes is taken.
	for _, text := range []string{
		deployment("{key: app, operator: In, values: [web, db]}, {key: app, operator: Exists}, {key: x, operator: DoesNotExist}, {key: app, operator: NotIn, values: [db]}"),
		affinity("    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n        nodeSelectorTerms:\n        - matchExpressions: [{key: a, operator: Gt, values: ['1']}]\n"),
		service("type: ExternalName"), service("type: ClusterIP"),
	} {
		if res, err := importertest.Of(text, importer.Options{}); err != nil {
			t.Errorf("%s\n%v", text, res.Notes)
		}
	}
}

// TestListsOfKinds: objects in a list of one kind need not say which they are, as in what the API
// server itself gives (kubectl get --raw).
func TestListsOfKinds(t *testing.T) {
	t.Parallel()
	res, err := importertest.Of("apiVersion: apps/v1\nkind: DeploymentList\nmetadata: {resourceVersion: '5'}\nitems:\n"+
		"- metadata: {name: web}\n  spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: nginx}]}}}\n"+
		"---\napiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: one}\n  spec: {containers: [{name: a, image: redis}]}\n"+
		"- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}\n", importer.Options{})
	if err != nil || len(res.Apps) != 1 {
		t.Fatal(err, res.Notes)
	}
	for _, want := range []string{"  web:\n", "image: nginx", "  one:\n", "image: redis"} {
		if !strings.Contains(string(res.Apps[0].Source), want) {
			t.Errorf("no %q in\n%s", want, res.Apps[0].Source)
		}
	}
	importertest.Says(t, res, importer.Said, 13, "is used by no container")
	// A list of anything says nothing of what is in it, nor one of half of what is said.
	importertest.Refused(t, "apiVersion: v1\nkind: List\nitems:\n- metadata: {name: x}\n", 4, "has no apiVersion")
	importertest.Refused(t, "apiVersion: v1\nkind: PodList\nitems:\n- kind: Pod\n  metadata: {name: x}\n", 4, "has no apiVersion")
	res, err = importertest.Of(podText("", "")+"---\napiVersion: example.org/v1\nkind: ThingList\nitems:\n- metadata: {name: x}\n", importer.Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	importertest.Says(t, res, importer.Lost, 12, `Thing x of "example.org/v1" is not carried over`)
}
