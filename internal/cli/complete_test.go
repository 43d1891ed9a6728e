package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
)

// Names are completed where they are wanted; what is after the colon says whether
// a space follows (bit 2: none) and whether files are offered (bit 4: none).
func TestCompletion(t *testing.T) {
	fake := world()
	fake.Spaces = []apiv1.NamespaceView{{Name: "default"}, {Name: "shop"}}
	fake.UserList = []apiv1.UserView{{Name: "amy"}, {Name: "bob"}}
	f := newFixture(t, fake)
	for line, want := range map[string]string{
		"get in|":                           "instances :4",
		"get instances guestbook.f|":        "guestbook.front.0 guestbook.front.1 guestbook.front.2 :4",
		"get app/|":                         "app/guestbook app/hello :4",
		"describe wo|":                      "worker/ :6",
		"describe worker/edge/|":            "worker/edge/w1 worker/edge/w2 :4",
		"describe cluster |":                "cloud edge fog :4",
		"logs guestbook.s|":                 "guestbook.store.0 :4",
		"logs service/guestbook.s|":         "service/guestbook.store :4",
		"exec guestbook.st|":                "guestbook.store.0 :4",
		"explain instance/guestbook.st|":    "instance/guestbook.store.0 :4",
		"scale guestbook.|":                 "guestbook.front guestbook.store :4",
		"restart h|":                        "hello :4",
		"delete |":                          "application/ :6",
		"wait application/hello --for |":    "deleted ready :4",
		"drain cluster/f|":                  "cluster/fog :4",
		"namespace rm |":                    "default shop :4",
		"user rm a|":                        "amy :4",
		"get apps -n |":                     "default shop :4",
		"get instances --app |":             "guestbook hello :4",
		"get instances -o |":                "table wide json yaml name :4",
		"top |":                             "instances services workers clusters :4",
		"autoscale |":                       "replay :4",
		"autoscale replay x --only |":       "verge verge-naive kpa-rps kpa-concurrency hpa :4",
		"autoscale replay x -o |":           "table json csv :4",
		"get instances guestbook.front.0 |": ":4",
		"describe nothing/|":                ":4",
	} {
		args := strings.Split(strings.TrimSuffix(line, "|"), " ")
		r := f.run(append([]string{"__completeNoDesc"}, args...)...)
		if got := strings.Join(strings.Fields(r.stdout), " "); r.code != 0 || got != want {
			t.Errorf("%s: exit %d, %q, want %q\n%s", line, r.code, got, want, r.stderr)
		}
	}
	if r := f.run("context", "use", f.env["VERGE_CONTEXT"]); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if r := f.run("__completeNoDesc", "get", "apps", "--context", ""); !strings.HasPrefix(r.stdout, "test\n") {
		t.Errorf("contexts: %+v", r)
	}
}

// Without anybody who answers there is nothing to complete, and nothing to say.
func TestCompletionWithoutAServer(t *testing.T) {
	f := newFixture(t, world())
	dead := f.entry
	dead.Server = "https://127.0.0.1:1"
	bad := filepath.Join(f.dir, "dead.yaml")
	if err := client.WriteContext(bad, dead); err != nil {
		t.Fatal(err)
	}
	for _, env := range []string{bad, filepath.Join(f.dir, "none.yaml")} {
		f.env["VERGE_CONTEXT"] = env
		for _, line := range []string{"get instances ", "logs ", "get apps -n "} {
			r := f.run(append([]string{"__completeNoDesc"}, strings.Split(line, " ")...)...)
			if r.code != 0 || strings.Contains(r.stdout+r.stderr, "verge:") || strings.Contains(r.stdout, "Error") {
				t.Errorf("%s with %s: %+v", line, env, r)
			}
		}
	}
}
