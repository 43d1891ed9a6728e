package descriptor

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
)

// refusal parses a source that must be refused, and returns the text.
func refusal(t *testing.T, source string) string {
	t.Helper()
	_, _, err := Parse("f", []byte(source))
	var errs Errors
	if !errors.As(err, &errs) {
		t.Fatalf("accepted: %.200q", source)
	}
	return err.Error()
}

func TestTooLarge(t *testing.T) {
	source := "application: x\n" + strings.Repeat("# fill\n", 2<<20/7)
	if got := refusal(t, source); !strings.Contains(got, "1 MiB") {
		t.Error(got)
	}
	// At the limit it is read.
	fits := "application: x\nservices: {web: {command: [x]}}\n"
	fits += "#" + strings.Repeat("x", api.MaxDescriptorBytes-len(fits)-1)
	if _, _, err := Parse("f", []byte(fits)); err != nil {
		t.Error(err)
	}
}

// hostile are inputs of a size that are quadratic, or worse, for some parser or
// for a careless check.
func hostile(size int) map[string]string {
	fill := func(head, s string) string { return head + strings.Repeat(s, (size-len(head))/len(s)) }
	steps := func() string {
		var b strings.Builder
		for i := 0; b.Len() < size-2000; i++ {
			b.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return b.String()
	}
	web := "application: x\nservices:\n  web:\n    command: [x]\n"
	return map[string]string{
		"open lists":     fill("", "["),
		"nested lists":   fill("", "[") + "]",
		"open mappings":  fill("", "{a: "),
		"json depth":     fill("", `{"a":`) + "1" + strings.Repeat("}", 10),
		"dashes":         fill("", "- "),
		"steps":          steps(),
		"question marks": fill("", "? "),
		"anchors":        fill("", "&a "),
		"tags":           fill("", "!a "),
		"blank literal":  fill("a: |\n", "\n"),
		"literals":       fill("", "a: |\n"),
		"quotes":         fill("", `"`),
		"empty keys":     fill("", "a:\n"),
		"same keys":      fill("", "a: b\n"),
		"merge keys":     fill("", "<<: a\n"),
		"documents":      fill("", "---\n"),
		"long scalar":    fill("application: ", "x"),
		"long key":       fill("? ", "x"),
		"unknown keys":   numbered("k%d: x\n", size),
		"services":       "application: x\nservices:\n" + numbered("  s%d: {command: [x]}\n", size),
		"bad services":   "application: x\nservices:\n" + numbered("  S%d: {}\n", size),
		"arguments":      fill(web+"    args: [", "x,") + "]",
		"dollars":        fill(web+"    args: [\"", "$") + "\"]",
		"references":     fill(web+"    args: [", `"${VERGE_A_ADDR}",`) + "]",
		"ports":          fill(web+"    ports: [", "{},") + "]",
		"clusters":       web + "    affinity: {cluster: [" + numbered("a%d,", size) + "]}",
		"environment":    web + "    env:\n" + numbered("      A%d: ${B}\n", size),
		"bad environ":    web + "    env:\n" + numbered("      1%d: ${\n", size),
		"volumes":        fill(web+"    volumes: [", "{path: a, tmpfs: 1Mi},") + "]",
		"files":          web + "    files:\n" + numbered("      a%d: {content: x}\n", size),
		"deep files":     web + "    files:\n      ? " + strings.Repeat("a/", size/2-100) + "a\n      : {content: x}\n",
		"secrets":        web + "    env_secrets:\n" + numbered("      A%d: b\n", size),
		"polygon":        fill(web+"    affinity: {polygon: [", "[1,2],") + "]}",
		"labels":         web + "    affinity:\n      labels:\n" + numbered("        a%d: b\n", size),
		"neighbours":     web + "    anti_affinity: {service: [" + numbered("a%d,", size) + "]}",
		"both lists":     web + "    affinity: {cluster: [" + numbered("a%d,", size/2) + "]}\n    anti_affinity: {cluster: [" + numbered("a%d,", size/2) + "]}",
		"exec":           fill(web+"    liveness: {exec: {command: [", `"${A}",`) + "]}}",
		"same as json":   fill(`{"application": "x", "services": {"web": {"command": [`, `"x",`) + `"x"]}}}`,
	}
}

// Four times the input may cost four times as much, not sixteen times. Bytes
// allocated stand for the work, because time depends on the machine; the bound
// on time is only for what hangs without allocating.
func TestHostileInputIsCheap(t *testing.T) {
	const small, large = 16 << 10, 64 << 10
	smaller := hostile(small)
	for name, source := range hostile(large) {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			least, _ := cost(smaller[name])
			most, err := cost(source)
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
			if most > 8*least && most > 4<<20 {
				t.Errorf("allocated %d KiB for %d KiB, %d KiB for %d KiB", least>>10, small>>10, most>>10, large>>10)
			}
			if err != nil {
				if text := err.Error(); len(text) > 64<<10 {
					t.Errorf("the message has %d bytes", len(text))
				}
			}
		})
	}
}

// cost returns the bytes that Parse allocates.
func cost(source string) (uint64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := Parse("f", []byte(source))
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

func numbered(format string, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size-400; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// Nested aliases meet the types; flat ones meet the budget.
func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("application: x\nservices:\n  a: &a {command: [" + strings.Repeat("x, ", 2000) + "x]}\n")
	for i := range 900 {
		fmt.Fprintf(&b, "  s%d: *a\n", i)
	}
	if got := refusal(t, b.String()); !strings.Contains(got, "aliases of this file expand to more than 1 MiB") || strings.Count(got, "\n") > 0 {
		t.Error(got)
	}
	// One large value used often is the same.
	long := strings.Repeat("x", 100_000)
	source := "application: x\nservices: {web: {command: [&x " + long + strings.Repeat(", *x", 20) + "]}}"
	if got := refusal(t, source); !strings.Contains(got, "aliases of this file") {
		t.Error(got)
	}
}

func TestDepth(t *testing.T) {
	for _, source := range []string{
		strings.Repeat("[", 40) + strings.Repeat("]", 40),
		strings.Repeat("- ", 40) + "x",
		strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40),
	} {
		if got := refusal(t, source); !strings.Contains(got, "nested more than 32 levels deep") {
			t.Errorf("%.20q: %s", source, got)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("application: x\nservices:\n")
	for i := range 50 {
		fmt.Fprintf(&b, "  s%d: {}\n", i)
	}
	got := refusal(t, b.String())
	if lines := strings.Split(got, "\n"); len(lines) != maxErrorsShown+1 || lines[maxErrorsShown] != "and 30 more" {
		t.Error(got)
	}
}

// A thousand services are an application, one more is not.
func TestManyServices(t *testing.T) {
	source := func(n int) []byte {
		var b strings.Builder
		b.WriteString("application: x\nservices:\n")
		for i := range n {
			fmt.Fprintf(&b, "  s%d: {command: [x, \"${VERGE_S%d_ADDR}\"], ports: [{}], anti_affinity: {service: [s0]}}\n", i, (i+1)%n)
		}
		return []byte(b.String())
	}
	app, _, err := Parse("f", source(api.MaxServices))
	if err != nil || len(app.Services) != api.MaxServices {
		t.Errorf("1,000 services: %v", err)
	}
	if got := refusal(t, string(source(api.MaxServices+1))); !strings.Contains(got, "has 1001 ") || strings.Contains(got, "\n") {
		t.Error(got)
	}
}

// Aliases that lead back to themselves end, wherever they stand.
func TestAliasCycles(t *testing.T) {
	for _, inside := range []string{
		"&a [*a]", "&a {web: *a}", "&a {web: {command: *a}}", "{web: &a {command: [x], env: *a}}", "{web: &a {command: [x], readiness: *a}}",
		"{web: &a {command: [x], affinity: *a}}", "{web: {command: [x], affinity: {polygon: &a [*a, *a, *a]}}}",
		"{web: {command: [x], files: &a {x: *a}}}", "{web: {command: [x], volumes: &a [*a]}}",
	} {
		if got := refusal(t, "application: x\nservices: "+inside); len(got) > 4000 {
			t.Errorf("%s: %d bytes of complaints", inside, len(got))
		}
	}
}

// A secret is referred to nowhere: it would be seen in the list of processes.
func TestSecretsAreNotReferredTo(t *testing.T) {
	const web = "application: x\nservices:\n  web:\n    env_secrets: {KEY: api-key, PATH: a-path}\n    command: [x]\n    "
	for _, line := range []string{
		`args: ["${KEY}"]`, `args: ["${PATH}"]`, `env: {A: "${KEY}"}`, `files: {a: {content: "${KEY}"}}`,
		`startup: {exec: {command: [x, "${KEY}"]}}`, `readiness: {exec: {command: ["${KEY}"]}}`, `liveness: {exec: {command: ["${KEY}"]}}`,
	} {
		if got := refusal(t, web+line); !strings.Contains(got, "is a secret") {
			t.Errorf("%s: %s", line, got)
		}
	}
	if _, _, err := Parse("f", []byte(web+`args: ["$${KEY} $KEY"]`)); err != nil {
		t.Errorf("what is no reference: %v", err)
	}
}
