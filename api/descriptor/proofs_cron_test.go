package descriptor

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
)

func init() {
	const decides = "internal/policy/cron."
	for field, p := range map[string]proof{
		"":             {`cron: {schedule: "0 2 * * *"}`, "cron: {}", "schedule", inCluster + "TestCronRuns"},
		".schedule":    {`cron: {schedule: "*/5 8-17 * * mon-fri"}`, "cron: {schedule: daily}", "is not a schedule", inCluster + "TestCronRuns"},
		".zone":        {`cron: {schedule: "0 2 * * *", zone: Europe/Berlin}`, `cron: {schedule: "0 2 * * *", zone: Europe/Bonn}`, "is not a time zone", "api.TestScheduleAtTheChangesOfTheClock"},
		".concurrency": {`cron: {schedule: "0 2 * * *", concurrency: replace}`, `cron: {schedule: "0 2 * * *", concurrency: queue}`, "queue", inCluster + "TestCronConcurrency"},
		".missed":      {`cron: {schedule: "0 2 * * *", missed: all}`, `cron: {schedule: "0 2 * * *", missed: two}`, "two", decides + "TestMissed"},
		".keep":        {`cron: {schedule: "0 2 * * *", keep: 0}`, `cron: {schedule: "0 2 * * *", keep: 51}`, "is more than 50", inCluster + "TestCronKeep"},
	} {
		proofs["services.*.cron"+field] = p
	}
}

// What has a schedule is a job, and its schedule is in the words of cron.
func TestCron(t *testing.T) {
	app, _, err := Parse("f", []byte(source(`cron: {schedule: "30 2 * * *"}`)))
	if err != nil {
		t.Fatal(err)
	}
	s := app.Services["web"]
	if s.Job == nil || s.Job.Completions != 1 || s.Restart.Policy != "never" || s.Cron.Concurrency != api.CronForbid || s.Cron.Missed != api.MissedOnce || *s.Cron.Keep != api.DefaultKeepRuns {
		t.Errorf("it became %+v, %+v", s.Job, s.Cron)
	}
	for inside, says := range map[string]string{
		`cron: {schedule: "30 2 * * *", concurrency: allow}`:           "do not overlap",
		`cron: {schedule: "30 2 31 2 *"}`:                              "no such day",
		`cron: {schedule: "30 2 * * * *"}`:                             "five fields",
		"cron: {schedule: '@daily'}":                                   "five fields",
		"runtime: wasm\nmodule: a.wasm\ncron: {schedule: '0 2 * * *'}": "programs that end",
		"cron: {schedule: '0 2 * * *', zone: Local}":                   "everywhere",
	} {
		if _, _, err := Parse("f", []byte(source(inside))); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", inside, err, says)
		}
	}
}

// The example is what it says that it is.
func TestNightlyExample(t *testing.T) {
	text, err := os.ReadFile("../../examples/nightly/verge.yaml")
	if err != nil {
		t.Fatal(err)
	}
	app, warnings, err := Parse("verge.yaml", text)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	s := app.Services["report"]
	due, err := api.ParseSchedule(s.Cron.Schedule, s.Cron.Zone)
	if err != nil {
		t.Fatal(err)
	}
	next := due.Next(time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC))
	if next.Format(time.RFC3339) != "2026-03-29T03:00:00+02:00" || s.Job.Completions != 3 {
		t.Errorf("it is due at %s, %+v", next, s.Job)
	}
}

// A job is suspended in its descriptor as people wrote it.
func TestSuspended(t *testing.T) {
	for was, want := range map[string]string{
		"application: a\nservices:\n  w:\n    command: [x] # why\n    cron: {schedule: '0 2 * * *'}\n": "application: a\nservices:\n  w:\n    job: {suspend: true}\n    command: [x] # why\n    cron: {schedule: '0 2 * * *'}\n",
		"application: a\nservices:\n  w:\n    command: [x]\n    job: {}\n":                             "application: a\nservices:\n  w:\n    command: [x]\n    job: {suspend: true}\n",
		"application: a\nservices:\n  w:\n    command: [x]\n    job:\n      retries: 1\n":              "application: a\nservices:\n  w:\n    command: [x]\n    job:\n      suspend: true\n      retries: 1\n",
		"application: a\nservices: {w: {command: [x], job: {suspend: false}}}\n":                       "application: a\nservices: {w: {command: [x], job: {suspend: true}}}\n",
		`{"application": "a", "services": {"w": {"command": ["x"], "job": {}}}}`:                       `{"application": "a", "services": {"w": {"command": ["x"], "job": {"suspend": true}}}}`,
	} {
		app, _, err := Parse("f", []byte(was))
		if err != nil {
			t.Fatal(err)
		}
		text, next, err := Suspended([]byte(was), app, "w", true)
		if err != nil || string(text) != want || !next.Services["w"].Job.Suspend || app.Services["w"].Job.Suspend {
			t.Errorf("%s became %s, %v", was, text, err)
			continue
		}
		if again, back, err := Suspended(text, next, "w", false); err != nil || back.Services["w"].Job.Suspend {
			t.Errorf("%s became %s, %v", text, again, err)
		}
	}
	app, _, err := Parse("f", []byte(source("")))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Suspended([]byte(source("")), app, "web", true); err == nil || !strings.Contains(err.Error(), "no job") {
		t.Error(err)
	}
	if _, _, err := Suspended([]byte(source("")), app, "wob", true); err == nil || !strings.Contains(err.Error(), "no service") {
		t.Error(err)
	}
}
