package importer

import (
	"strings"
	"testing"
)

// microText is a descriptor of Oakestra with one microservice, which begins in line 2 and has
// something more in line 3.
func microText(fields string) string { return microTexts("\n" + fields) }

// microTexts is one whose microservices have these fields besides, and are called a, b, c.
func microTexts(fields ...string) string {
	var list []string
	for i, f := range fields {
		list = append(list, `{"microservice_name": "`+string(rune('a'+i))+`", "microservice_namespace": "n", "virtualization": "container", "code": "x", `+f+`}`)
	}
	return `{"sla_version": "v2.0", "customerID": "", "applications": [{"application_name": "app", "application_namespace": "n", "microservices": [` + "\n" + strings.Join(list, ",\n") + "]}]}"
}

// TestShapesOfOakestra: a field that is written as something else than it is to be is refused
// with its line, and not taken for one that says nothing.
func TestShapesOfOakestra(t *testing.T) {
	t.Parallel()
	for fields, why := range map[string]string{
		`"port": [80]`:                       "port: is a list, and is to be a single value",
		`"port": ";;"`:                       `";;" names no port`,
		`"port": {"80": 80}`:                 "port: is a mapping, and is to be a single value",
		`"addresses": "10.30.1.1"`:           "addresses: is a single value, and is to be a mapping",
		`"addresses": ["10.30.1.1"]`:         "addresses: is a list, and is to be a mapping",
		`"addresses": {"rr_ip": ["x"]}`:      "addresses.rr_ip: is a list, and is to be a single value",
		`"connectivity": ["b"]`:              "connectivity[0]: is a single value, and is to be a mapping",
		`"connectivity": {"a": 1}`:           "connectivity: is a mapping, and is to be a list",
		`"constraints": [null]`:              "constraints[0]: is null, and is to be a mapping",
		`"constraints": "geo"`:               "constraints: is a single value, and is to be a list",
		`"volumes": ["a:/b"]`:                "volumes[0]: is a single value, and is to be a mapping",
		`"volumes": [{"config": "/x"}]`:      "volumes[0].config: is a single value, and is to be a mapping",
		`"volumes": [{"volume_id": []}]`:     "volumes[0]: is not carried over",
		`"cmd": [null]`:                      "cmd[0]: is null, and is to be a text",
		`"cmd": "run"`:                       "cmd: is no list of texts",
		`"environment": [null]`:              "environment[0]: is not NAME=VALUE",
		`"privileged": "yes"`:                "privileged: is neither true nor false",
		`"constraints": [{"type": ["geo"]}]`: "constraints[0].type: is a list",
		`"constraints": [{"type": "geo", "location": [48, 11], "threshold": 1}]`:                              "constraints[0].location: is a list",
		`"constraints": [{"type": "clusters", "allowed": {"a": "b"}}]`:                                        "constraints[0].allowed: is a mapping",
		`"constraints": [{"type": "clusters", "allowed": ["a", null]}]`:                                       "constraints[0].allowed[1]: is null",
		`"connectivity": [{"target_microservice_id": ["a"]}]`:                                                 "target_microservice_id: is a list",
		`"connectivity": [{"target_microservice_id": "a", "con_constraints": ["latency"]}]`:                   "con_constraints[0]: is a single value",
		`"connectivity": [{"target_microservice_id": "a", "con_constraints": [{"type": {"latency": true}}]}]`: "con_constraints[0].type: is a mapping",
	} {
		if strings.Contains(why, "not carried over") {
			res, err := of(microText(fields), Options{})
			if err != nil {
				t.Errorf("%s: %v", fields, res.Notes)
			}
			says(t, res, Lost, 3, why)
			continue
		}
		refused(t, microText(fields), 3, why)
	}
	refused(t, strings.Replace(microText(`"memory": 1`), `"code": "x"`, `"code": null`, 1), 2, "has no code")
	// What has nothing in it says as much as what is not there.
	res, err := of(microText(`"port": [], "addresses": "", "constraints": {}, "connectivity": null, "volumes": "", "privileged": false, "memory": 100`), Options{})
	if err != nil || res.Lost || len(res.Notes) != 0 {
		t.Errorf("%v, %v", err, res.Notes)
	}
}

// TestUnknownOakestra: what is no field of Oakestra is named, however deep it is.
func TestUnknownOakestra(t *testing.T) {
	t.Parallel()
	res, err := of(microTexts(
		`"constraints": [{"type": "geo", "location": "1,2", "threshold": 1,`+"\n"+`"mode": "strict", "area": "munich"}]`,
		`"connectivity": [{"target_microservice_id": "a",`+"\n"+`"why": "calls", "con_constraints": [{"type": "latency", "threshold": 5,`+"\n"+`"unit": "s"}]}]`,
		`"volumes": [{"volume_id": "v", "mount_path": "/v", "csi_driver": "csi.oakestra.io/hostpath",`+"\n"+`"read_only": true, "config": {"size": 5}}]`,
		`"constraints": [{"type": "latency", "location": "1,2", "threshold": 5,`+"\n"+`"area": "munich"}]`,
	), Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	says(t, res, Lost, 3, "constraints[0].mode: is no field of Oakestra")
	says(t, res, Lost, 3, "constraints[0].area: is not carried over")
	says(t, res, Lost, 5, "connectivity[0].why: is no field of Oakestra")
	says(t, res, Lost, 6, "con_constraints[0].unit: is no field of Oakestra")
	says(t, res, Lost, 8, "volumes[0].read_only: is no field of Oakestra")
	says(t, res, Lost, 8, "volumes[0].config.size: is not carried over")
	says(t, res, Lost, 10, "constraints[0].area: is not carried over")
}

// TestVariableTwice: the last value of a variable counts, as with Oakestra, which is said.
func TestVariableTwice(t *testing.T) {
	t.Parallel()
	res, err := of(microText("\"environment\": [\"A=1\",\n\"B=1\",\n\"A=2\",\n\"B=1\"]"), Options{})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), `A: "2"`) {
		t.Fatal(err, res.Notes)
	}
	says(t, res, Said, 5, `"A" is set in line 3 as well: this value counts`)
	for _, n := range res.Notes {
		if strings.Contains(n.Text, `"B"`) {
			t.Errorf("the same value twice is no matter: %v", n)
		}
	}
}
