package oakestra_test

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

// TestBadOakestra: what Oakestra refuses, or Verge cannot express, is refused.
func TestBadOakestra(t *testing.T) {
	micro := func(fields string) string {
		return "{\"sla_version\": \"v2.0\", \"customerID\": \"a\", \"applications\": [{\"applicationID\": \"\", " +
			"\"application_name\": \"a\", \"application_namespace\": \"n\", \"microservices\": [\n{" +
			"\"microservice_name\": \"m\", \"microservice_namespace\": \"n\", \"virtualization\": \"container\", " +
			"\"code\": \"x\"\n, " + fields + "}]}]}"
	}
	for _, c := range []struct {
		name, text string
		line       int
		why        string
	}{
		{"another version", `{"sla_version": "v1.0", "customerID": "a", "applications": []}`, 1,
			`"v1.0" is not a version`},
		{"the version of the documentation", `{"api_version": "v0.3.2", "customerID": "a", "applications": []}`, 1,
			"has no sla_version"},
		{"microservices alone", `{"microservices": [{"microservice_name": "a"}]}`, 1, "belong to an application"},
		{"no applications", `{"sla_version": "v2.0", "customerID": "a", "applications": []}`, 1,
			"is not a list of applications"},
		{"no microservices", `{"sla_version": "v2.0", "customerID": "a", "applications": [{"application_name": "a", "microservices": []}]}`, 1, "there are no microservices"},
		{"a name", `{"sla_version": "v2.0", "customerID": "a", "applications": [{"application_name": "my-app", "microservices": []}]}`, 1, "1 to 30 letters and digits"},
		{"a long name", `{"sla_version": "v2.0", "customerID": "a", "applications": [{"application_name": "` +
			strings.Repeat("a", 31) + `", "microservices": []}]}`, 1, "1 to 30 letters and digits"},
		{"a unikernel", strings.Replace(micro(`"memory": 1`), `"container"`, `"unikernel"`, 1), 2,
			`Verge runs no "unikernel"`},
		{"no code", strings.Replace(micro(`"memory": 1`), `"code": "x"`, `"code": ""`, 1), 2, "has no code"},
		{"a text for a number", micro(`"memory": "lots"`), 3, "is not a number"},
		{"less than nothing", micro(`"memory": -1`), 3, "is not an amount"},
		{"a port", micro(`"port": "http"`), 3, "is not a port"},
		{"a circle", micro(`"constraints": [{"type": "geo", "location": "here", "threshold": 1}]`), 3,
			"is not a circle"},
		{"a rigidness", micro(`"constraints": [{"type": "geo", "location": "1,2", "threshold": 1, "rigidness": 7}]`), 3,
			"is more than 1"},
		{"an environment", micro(`"environment": ["A"]`), 3, "is not NAME=VALUE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			importertest.Refused(t, c.text, c.line, c.why)
		})
	}
	res, err := importertest.Of(micro(`"vcpu": 2, "vcpus": 1, "shape": "round", "addresses": {"rr_ip": "192.168.0.1"}, "port": "80"`), importer.Options{})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), "cpu: \"1\"") {
		t.Errorf("%v, %v", err, res.Apps)
	}
	importertest.Says(t, res, importer.Lost, 3, "vcpus counts")
	importertest.Says(t, res, importer.Lost, 3, "is not in 10.30.0.0/16")
	importertest.Says(t, res, importer.Lost, 3, "shape: is not a field of Oakestra")
}
