package descriptor

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
)

var update = flag.Bool("update", false, "rewrite golden files and the reference page")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what it was. If that is right: go test ./api/descriptor -update. It differs from here on:\n%s",
			file, differs(string(want), got))
	}
}

func samples(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples for %s: %v", pattern, err)
	}
	list := map[string][]byte{}
	for _, file := range files {
		if filepath.Ext(file) == ".golden" {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list[file] = source
	}
	return list
}

// Every file in testdata/reject is refused with exactly the text beside it.
func TestRejected(t *testing.T) {
	for file, source := range samples(t, "reject/*") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			app, _, err := Parse(filepath.Base(file), source)
			var errs Errors
			if app != nil || !errors.As(err, &errs) {
				t.Fatalf("was accepted: %v, %v", app, err)
			}
			golden(t, file+".golden", err.Error()+"\n")
		})
	}
}

// Every file in testdata/accept is accepted, becomes exactly the JSON beside it
// with all defaults filled in, and survives being written as JSON.
func TestAccepted(t *testing.T) {
	files := samples(t, "accept/*")
	files["testdata/hello.yaml"] = samples(t, "hello.yaml")["testdata/hello.yaml"]
	for file, source := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			app, warnings, err := Parse(filepath.Base(file), source)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, w := range warnings {
				b.WriteString("warning: " + w.String() + "\n")
			}
			text, err := json.MarshalIndent(app, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file+".golden", b.String()+string(text)+"\n")
			sameAsJSON(t, app)
		})
	}
}

// sameAsJSON checks both ways back from JSON: the strict one of files and the
// lenient one of messages.
func sameAsJSON(t *testing.T, app *api.Application) {
	t.Helper()
	text, err := json.Marshal(app)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := Parse("again", text)
	if err != nil {
		t.Fatalf("its JSON is refused: %v\n%s", err, text)
	}
	if !reflect.DeepEqual(app, again) {
		t.Errorf("differs after JSON:\n%s", text)
	}
	var lenient api.Application
	if err := json.Unmarshal(text, &lenient); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(app, &lenient) {
		t.Errorf("differs after json.Unmarshal:\n%s", text)
	}
}

func TestSmallestFileHasTenLines(t *testing.T) {
	source, err := os.ReadFile("testdata/hello.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), "\n"); n > 10 {
		t.Errorf("hello.yaml has %d lines", n)
	}
}

func TestExcerpt(t *testing.T) {
	_, _, err := Parse("x.yaml", []byte("application: x\nservices:\n  web:\n    command: [x]\n    spread: hard\n    env: {SECRET: [hunter2]}\n"))
	var errs Errors
	if !errors.As(err, &errs) || len(errs) != 2 {
		t.Fatalf("want 2 errors, got %v", err)
	}
	want := "    5 |     spread: hard\n      |             ^"
	if errs[0].Excerpt != want {
		t.Errorf("excerpt:\n%s\nwant:\n%s", errs[0].Excerpt, want)
	}
	if errs[1].Excerpt != "" || strings.Contains(errs[1].Error(), "hunter2") {
		t.Errorf("a value of env is shown: %+v", errs[1])
	}
	var one *Error
	if !errors.As(err, &one) || one != errs[0] {
		t.Errorf("errors.As finds %v", one)
	}
}

// differs are the lines around the first in which two texts differ.
func differs(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	around := func(lines []string) string { return strings.Join(lines[min(n, len(lines)):min(n+3, len(lines))], "\n") }
	return "was: " + around(a) + "\nnow: " + around(b)
}
