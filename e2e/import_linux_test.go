package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// importedCompose, importedKubernetes and importedOakestra are what people have: each
// serves a page that says what it was given, which it writes to the files of its image.
const importedCompose = `name: from-compose
services:
  web:
    image: shop:1
    pull_policy: never
    command: ['mkdir /srv; echo "$$MODE $$(cat /etc/motd) $$(tr "\0" "\n" < /proc/1/environ | grep ^log)" > /srv/index.html; exec httpd -f -p %[1]s -h /srv']
    environment: {MODE: compose, log.level: debug}
    ports: ["%[2]s:%[1]s"]
    volumes: ["./motd:/etc/motd:ro"]
    stop_grace_period: 1s
`

const importedKubernetes = `# Source: shop/templates/all.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {mode: kubernetes, motd: "$(hello) ${you}"}
---
apiVersion: v1
kind: Secret
metadata: {name: db}
stringData: {password: in-no-descriptor}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-deployment, labels: {app.kubernetes.io/part-of: from-kubernetes}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: shop:1
        imagePullPolicy: Never
        command: [sh, -c, 'mkdir /srv; echo "$MODE $(cat /etc/web/motd) $PASSWORD $(NAME)" > /srv/index.html; exec httpd -f -p %[1]s -h /srv']
        env:
        - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: MODE, valueFrom: {configMapKeyRef: {name: web, key: mode}}}
        - {name: PASSWORD, valueFrom: {secretKeyRef: {name: db, key: password}}}
        ports: [{name: http, containerPort: %[1]s}]
        readinessProbe: {httpGet: {path: /index.html, port: http}, periodSeconds: 1}
        volumeMounts: [{name: config, mountPath: /etc/web}]
      volumes: [{name: config, configMap: {name: web, items: [{key: motd, path: motd}]}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: %[1]s, targetPort: http}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules: [{host: shop.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: %[1]s}}}}]}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, labels: {app.kubernetes.io/part-of: from-kubernetes}}
spec:
  completions: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers: [{name: migrate, image: shop:1, imagePullPolicy: Never, command: [sh, -c, 'echo "index $JOB_COMPLETION_INDEX"']}]
`

const importedOakestra = `{"sla_version": "v2.0", "customerID": "Admin", "applications": [{
  "applicationID": "", "application_name": "fromoakestra", "application_namespace": "default", "microservices": [{
    "microserviceID": "", "microservice_name": "web", "microservice_namespace": "default", "virtualization": "container",
    "memory": 64, "vcpus": 0.1, "code": "shop:1", "environment": ["MODE=oakestra \ud83d\ude00"], "port": "%[2]s:%[1]s",
    "cmd": ["sh", "-c", "mkdir /srv; echo $MODE > /srv/index.html; exec httpd -f -p %[1]s -h /srv"]
  }]}]}
`

// TestImported imports an example of each kind, applies what comes out, and asks what runs.
func TestImported(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	ctd := containertest.Need(t)
	image, err := containertest.Build(containertest.Config{Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{"exit 1"}})
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "shop.tar")
	if err := containertest.Save(archive, "shop:1", image); err != nil {
		t.Fatal(err)
	}
	w := newRoot(t)
	w.addCluster("edge")
	w.cluster["edge"].answers()
	node := w.addWorker("edge", "edge-1", "--containerd", ctd.Address)
	w.allReady()
	if r := verge(t, w.root.contextFile(), "image", "load", archive, "--containerd", ctd.Address); r.code != 0 {
		t.Fatalf("load: %+v", r)
	}
	split := func(addr string) (host, port string) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		return host, port
	}
	port := func() string {
		_, p := split(freeAddr(t))
		return p
	}
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "imported")
	published := map[string]string{"compose": port(), "oakestra": port()}
	for name, text := range map[string]string{
		"compose.yaml":    fmt.Sprintf(importedCompose, port(), published["compose"]),
		"kubernetes.yaml": fmt.Sprintf(importedKubernetes, port()),
		"oakestra.json":   fmt.Sprintf(importedOakestra, port(), published["oakestra"]),
		"motd":            "hello",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := verge(t, w.root.contextFile(), "import", filepath.Join(dir, "compose.yaml"), filepath.Join(dir, "kubernetes.yaml"), filepath.Join(dir, "oakestra.json"), "-o", out)
	if r.code != 0 || !strings.Contains(r.err, "verge secret set db-password") {
		t.Fatalf("import: %+v", r)
	}
	w.set("db-password", "hunter2")
	for _, app := range []string{"from-compose", "from-kubernetes", "fromoakestra"} {
		file := filepath.Join(out, app+".yaml")
		if text := string(must[[]byte](t)(os.ReadFile(file))); strings.Contains(text, "in-no-descriptor") {
			t.Errorf("a secret is in %s", text)
		}
		w.root.ok("apply", "--timeout", "2m", file)
	}
	gateway, _ := split(node.gateway)
	for _, x := range []struct{ addr, host, want string }{
		{net.JoinHostPort(gateway, published["compose"]), "any.test", "compose hello log.level=debug\n"},
		{node.gateway, "shop.test", "kubernetes $(hello) ${you} hunter2 from-kubernetes.web.0\n"},
		{net.JoinHostPort(gateway, published["oakestra"]), "any.test", "oakestra \U0001F600\n"},
	} {
		eventually(t, 60*time.Second, "it answers with "+x.want, func() error {
			got, err := fetch(x.addr, x.host, "/index.html")
			if err == nil && got != x.want {
				err = fmt.Errorf("it says %q", got)
			}
			return err
		})
	}
	w.root.ok("wait", "job/from-kubernetes.migrate", "--for", "complete", "--timeout", "2m")
	if text := w.root.ok("logs", "from-kubernetes.migrate.1"); !strings.Contains(text, "index 1") {
		t.Errorf("the logs of index 1 are %q", text)
	}
}
