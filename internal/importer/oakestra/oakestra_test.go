package oakestra_test

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

// microText is a descriptor of Oakestra with one microservice, which begins in line 2 and has
// something more in line 3.
func microText(fields string) string { return microTexts("\n" + fields) }

// microTexts is one whose microservices have these fields besides, and are called a, b, c.
func microTexts(fields ...string) string {
	var list []string
	for i, f := range fields {
		list = append(list, `{"microservice_name": "`+string(rune('a'+i))+
			`", "microservice_namespace": "n", "virtualization": "container", "code": "x", `+f+`}`)
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
		`"cmd": "run"`:                       "cmd: is not a list of texts",
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
			res, err := importertest.Of(microText(fields), importer.Options{})
			if err != nil {
				t.Errorf("%s: %v", fields, res.Notes)
			}
			importertest.Says(t, res, importer.Lost, 3, why)
			continue
		}
		importertest.Refused(t, microText(fields), 3, why)
	}
	importertest.Refused(t, strings.Replace(microText(`"memory": 1`), `"code": "x"`, `"code": null`, 1), 2,
		"has no code")
	// What has nothing in it says as much as what is not there.
	res, err := importertest.Of(microText(`"port": [], "addresses": "", "constraints": {}, "connectivity": null, "volumes": "", "privileged": false, "memory": 100`), importer.Options{})
	if err != nil || res.Lost || len(res.Notes) != 0 {
		t.Errorf("%v, %v", err, res.Notes)
	}
}

// TestUnknownOakestra: what is not a field of Oakestra is named, however deep it is.
func TestUnknownOakestra(t *testing.T) {
	t.Parallel()
	res, err := importertest.Of(microTexts(
		`"constraints": [{"type": "geo", "location": "1,2", "threshold": 1,`+"\n"+
			`"mode": "strict", "area": "munich"}]`,
		`"connectivity": [{"target_microservice_id": "a",`+"\n"+
			`"why": "calls", "con_constraints": [{"type": "latency", "threshold": 5,`+"\n"+`"unit": "s"}]}]`,
		`"volumes": [{"volume_id": "v", "mount_path": "/v", "csi_driver": "csi.oakestra.io/hostpath",`+"\n"+
			`"read_only": true, "config": {"size": 5}}]`,
		`"constraints": [{"type": "latency", "location": "1,2", "threshold": 5,`+"\n"+`"area": "munich"}]`,
	), importer.Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	importertest.Says(t, res, importer.Lost, 3, "constraints[0].mode: is not a field of Oakestra")
	importertest.Says(t, res, importer.Lost, 3, "constraints[0].area: is not carried over")
	importertest.Says(t, res, importer.Lost, 5, "connectivity[0].why: is not a field of Oakestra")
	importertest.Says(t, res, importer.Lost, 6, "con_constraints[0].unit: is not a field of Oakestra")
	importertest.Says(t, res, importer.Lost, 8, "volumes[0].read_only: is not a field of Oakestra")
	importertest.Says(t, res, importer.Lost, 8, "volumes[0].config.size: is not carried over")
	importertest.Says(t, res, importer.Lost, 10, "constraints[0].area: is not carried over")
}

// TestVariableTwice: the last value of a variable counts, as with Oakestra, which is said.
func TestVariableTwice(t *testing.T) {
	t.Parallel()
	res, err := importertest.Of(microText("\"environment\": [\"A=1\",\n\"B=1\",\n\"A=2\",\n\"B=1\"]"),
		importer.Options{})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), `A: "2"`) {
		t.Fatal(err, res.Notes)
	}
	importertest.Says(t, res, importer.Said, 5, `"A" is set in line 3 as well: this value counts`)
	for _, n := range res.Notes {
		if strings.Contains(n.Text, `"B"`) {
			t.Errorf("the same value twice is no matter: %v", n)
		}
	}
}

// appText is a descriptor with applications, each in a line of its own from the second on, with one
// microservice.
func appText(heads ...string) string {
	for i, h := range heads {
		heads[i] = `{` + h + `, "microservices": [{"microservice_name": "m", "microservice_namespace": "n", "virtualization": "container", "code": "x", "memory": 1}]}`
	}
	return `{"sla_version": "v2.0", "customerID": "", "applications": [` + "\n" + strings.Join(heads, ",\n") + "]}"
}

// TestApplicationsOfOneName: those that Oakestra tells apart, by their namespaces or by capital
// letters, are told apart; those of one name are refused, with what to do.
func TestApplicationsOfOneName(t *testing.T) {
	t.Parallel()
	res, err := importertest.Of(appText(`"application_name": "App", "application_namespace": "n"`,
		`"application_name": "app", "application_namespace": "n"`,
		`"application_name": "app", "application_namespace": "other"`)+
		"\n---\n"+appText(`"application_name": "APP", "application_namespace": "n"`), importer.Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	var got []string
	for _, a := range res.Apps {
		got = append(got, a.Name)
	}
	if strings.Join(got, " ") != "app-3 app app-2 app-4" {
		t.Errorf("they are called %v", got)
	}
	importertest.Says(t, res, importer.Said, 2, "is called app-3: app is another application")
	importertest.Says(t, res, importer.Said, 4, "is called app-2: app is another application")
	importertest.Says(t, res, importer.Said, 7, "is called app-4")

	importertest.Refused(t, appText(`"application_name": "app", "application_namespace": "n"`,
		`"application_name": "app", "application_namespace": "n"`), 3,
		`the application "app" of this namespace is there already, in in.yaml:2: Oakestra takes one of a name; give this one another`)

	// Two files of one command are told apart in the same way.
	one, two := appText(`"application_name": "app", "application_namespace": "n"`),
		appText(`"application_name": "app", "application_namespace": "other"`)
	res, err = importer.Import([]importer.Source{{Name: "a.json", Data: []byte(one)},
		{Name: "b.json", Data: []byte(two)}}, importer.Options{})
	if err != nil || len(res.Apps) != 2 || res.Apps[1].Name != "app-2" {
		t.Errorf("%v, %v", err, res.Notes)
	}
	res, err = importer.Import([]importer.Source{{Name: "a.json", Data: []byte(one)},
		{Name: "b.json", Data: []byte(two)}}, importer.Options{Name: "shop"})
	if err == nil {
		t.Error("both have one name")
	}
	importertest.Says(t, res, importer.Refused, 1, "import one of them by itself, with another name (--name)")
}

// TestOldNamesOfOakestra: where microservices name each other as they are not called in Verge it
// is said, and what only looks like it is left alone.
func TestOldNamesOfOakestra(t *testing.T) {
	t.Parallel()
	text := strings.Replace(microTexts(
		"\"environment\": [\n\"A=http://Back.n:80/x\",\n\"B_HOST=Back\",\n\"C=app.n.Back.n\",\n"+
			"\"D=/usr/lib/Back/x\",\n\"E=9 of 10\",\n\"F=9:80\",\n\"G=x://c.n\"]",
		`"memory": 1`, "\"cmd\": [\"serve\",\n\"c\"]", `"memory": 1`), `"b"`, `"Back"`, 1)
	res, err := importertest.Of(strings.Replace(text, `"d"`, `"9"`, 1), importer.Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	importertest.Says(t, res, importer.Lost, 3, `environment[0]: refers to "Back.n", which is called back: write that`)
	importertest.Says(t, res, importer.Said, 4, `environment[1]: names "Back", which is called back`)
	importertest.Says(t, res, importer.Lost, 5, `refers to "app.n.Back.n", which is called back`)
	importertest.Says(t, res, importer.Lost, 8, `refers to "9", which is called x9`)
	importertest.Says(t, res, importer.Lost, 9, `refers to "c.n", which is called c`)
	for _, n := range res.Notes {
		if n.Line == 6 || n.Line == 7 || strings.Contains(n.Field, "cmd") {
			t.Errorf("nothing is named there: %v", n)
		}
	}
	// A name that can stay does, whatever comes before it.
	res, err = importertest.Of(strings.Replace(microTexts(`"memory": 1`, `"memory": 1`), `"b"`, `"A"`, 1),
		importer.Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	importertest.Says(t, res, importer.Said, 3, "is called a-2")
}

// TestAmountsOfOakestra: what is more than Verge counts is refused with its line, and what is
// less than it counts is rounded up.
func TestAmountsOfOakestra(t *testing.T) {
	t.Parallel()
	importertest.Refused(t, microText(`"memory": 1e15`), 3, `memory: "1e15" MB are more than 1024Ti`)
	importertest.Refused(t, microText(`"storage": 9e12`), 3, `storage: "9e12" MB are more than 1024Ti`)
	importertest.Refused(t, microText(`"memory": 1e18`), 3, `"1e18" is not an amount, which is from 0 to 1e15`)
	res, err := importertest.Of(microText(`"memory": 0.001, "vcpus": 16.1, "vgpus": 0.0001`), importer.Options{})
	if err != nil {
		t.Fatal(err, res.Notes)
	}
	importertest.Says(t, res, importer.Lost, 3, "memory: is raised to 1Mi")
	for _, want := range []string{"cpu: 16100m\n", "memory: 1Mi\n", "vgpus: \"0.001\"\n"} {
		if !strings.Contains(string(res.Apps[0].Source), want) {
			t.Errorf("no %q in\n%s", want, res.Apps[0].Source)
		}
	}
}

// TestOneAddressOfOakestra: an address is that of one microservice, of whichever application.
func TestOneAddressOfOakestra(t *testing.T) {
	t.Parallel()
	micro := func(name, ip string) string {
		return `{"microservice_name": "` + name +
			`", "microservice_namespace": "test", "virtualization": "container", "code": "nginx", "port": "80",` +
			"\n" +
			`"addresses": {"rr_ip": "` + ip + `"}}`
	}
	app := func(name string, micros ...string) string {
		return `{"application_name": "` + name + `", "application_namespace": "test", "microservices": [` +
			strings.Join(micros, ",") + `]}`
	}
	file := func(apps ...string) string {
		return `{"sla_version": "v2.0", "customerID": "Admin", "applications": [` + strings.Join(apps, ",") + `]}`
	}
	importertest.Refused(t, file(app("a", micro("x", "10.30.1.1")), app("b", micro("y", "10.30.1.1"))), 3,
		"10.30.1.1 is the address of another microservice, in in.yaml:2")
	importertest.Refused(t, file(app("a", micro("x", "10.30.1.1"), micro("y", "10.30.1.1"))), 3,
		"is the address of another microservice")
	if _, err := importertest.Of(file(app("a", micro("x", "10.30.1.1")), app("b", micro("y", "10.30.1.2"))),
		importer.Options{}); err != nil {
		t.Error(err)
	}
}

// TestFirstAddressOfOakestra: the address of the network and its broadcast are no service's.
func TestFirstAddressOfOakestra(t *testing.T) {
	t.Parallel()
	for _, ip := range []string{"10.30.0.0", "10.30.255.255"} {
		res, err := importertest.Of(microText(`"port": "80", "addresses": {"rr_ip": "`+ip+`"}`), importer.Options{})
		if err != nil || strings.Contains(string(res.Apps[0].Source), "service_ip") {
			t.Errorf("%s: %v", ip, err)
		}
		importertest.Says(t, res, importer.Lost, 3, "rr_ip: is not carried over: "+ip+
			" is the first or the last address of 10.30.0.0/16")
	}
	for _, ip := range []string{"10.30.0.1", "10.30.255.254"} {
		res, err := importertest.Of(microText(`"port": "80", "addresses": {"rr_ip": "`+ip+`"}`), importer.Options{})
		if err != nil || !strings.Contains(string(res.Apps[0].Source), "service_ip: "+ip) {
			t.Errorf("%s: %v", ip, err)
		}
	}
}
