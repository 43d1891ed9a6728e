package descriptor

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
)

func init() {
	const decides = "internal/policy/job."
	for field, p := range map[string]proof{
		"":             {"job: {}", "job: {}\nreplicas: 3", "is not the number of instances of a job", inCluster + "TestJobCompletes"},
		".completions": {"job: {completions: 5}", "job: {completions: 0}", "is less than 1", inCluster + "TestJobCompletes"},
		".parallelism": {"job: {completions: 5, parallelism: 2}", "job: {parallelism: 0}", "is less than 1", inCluster + "TestJobCompletes"},
		".retries":     {"job: {retries: 0}", "job: {retries: -1}", "is less than 0", inCluster + "TestJobRetriesAreBounded"},
		".deadline":    {"job: {deadline: 10m}", "job: {deadline: 10ms}", "is less than 1s", inCluster + "TestJobDeadline"},
		".keep":        {"job: {keep: 0s}", "job: {keep: soon}", "is not", inCluster + "TestJobKeepsItsLogs"},
		".suspend":     {"job: {suspend: true}", "job: {suspend: maybe}", "suspend", decides + "TestAdmit"},
	} {
		proofs["services.*.job"+field] = p
	}
}

// What means nothing in a job is refused, and what is silent is filled in.
func TestJobs(t *testing.T) {
	for inside, says := range map[string]string{
		"job: {}\nrestart: {policy: always}":      "job.retries",
		"job: {completions: 3}\nreplicas: 2":      "leave it out",
		"job: {}\nports: [{name: http}]\nslo: 1s": "services that go on",
		"runtime: wasm\nmodule: a.wasm\njob: {}":  "programs that end",
		"job: {completions: 10001}":               "is more than",
	} {
		if _, _, err := Parse("f", []byte(source(inside))); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", inside, err, says)
		}
	}
	app, warnings, err := Parse("f", []byte(source("job: {completions: 3, parallelism: 4}\nreplicas: 3")))
	if err != nil || len(warnings) != 1 {
		t.Fatal(err, warnings)
	}
	s := app.Services["web"]
	if s.Replicas != (api.Replicas{Min: 3, Max: 3}) || s.Restart.Policy != "never" || *s.Job.Retries != api.DefaultRetries || *s.Job.Keep != api.DefaultKeep {
		t.Errorf("it became %+v of %+v", s, s.Job)
	}
	if _, _, err := Scaled([]byte(source("job: {}")), app, "web", 5); err == nil || !strings.Contains(err.Error(), "not scaled") {
		t.Error("a job was scaled:", err)
	}
}
