package cli

import (
	"testing"
)

func TestEndsOfACopy(t *testing.T) {
	for arg, want := range map[string]copyPlace{
		"box.one.0:a/b": {"box.one.0", "a/b"}, "box.one.0:": {"box.one.0", "."},
		"instance/box.one.0:/etc/x:y": {"instance/box.one.0", "/etc/x:y"},
		"./a:b":                       {path: "./a:b"}, "/a:b": {path: "/a:b"}, "a": {path: "a"}, ".": {path: "."},
		"A:b": {path: "A:b"},
		"":    {},
	} {
		if got := copyEnd(arg); got != want {
			t.Errorf("%s is %+v, want %+v", arg, got, want)
		}
	}
}

func TestForwardPorts(t *testing.T) {
	for arg, want := range map[string]forwardPort{
		"8080:http": {8080, "http"}, ":http": {0, "http"}, "http": {0, "http"}, "5432": {5432, "5432"},
		"0:80": {0, "80"},
	} {
		got, err := forwardPorts([]string{arg})
		if err != nil || got[0] != want {
			t.Errorf("%s is %+v, %v, want %+v", arg, got, err, want)
		}
	}
	for _, arg := range []string{"", ":", "8080:", "x:80", "70000:80", "-1:80", "1:2:3"} {
		if got, err := forwardPorts([]string{arg}); err == nil {
			t.Errorf("%q is %+v", arg, got)
		}
	}
	if _, err := forwardPorts(make([]string, 17)); err == nil {
		t.Error("too many ports are taken")
	}
}

// What fails before anything is begun.
func TestCopyAndForwardThatFail(t *testing.T) {
	f := execFixture(t, &program{})
	for name, args := range map[string][]string{
		"both here":        {"cp", "/a", "/b"},
		"both there":       {"cp", "guestbook.store.0:a", "guestbook.store.0:b"},
		"no such instance": {"cp", "guestbook.none.0:a", "/tmp"},
		"nothing here":     {"cp", t.TempDir() + "/none", "guestbook.store.0:a"},
		"no such service":  {"port-forward", "guestbook/none", ":http"},
		"not a service":    {"port-forward", "application/guestbook", ":http"},
		"not a port":       {"port-forward", "guestbook/store", "x:y:z"},
	} {
		if got := f.run(args...); got.code != 1 || got.stdout != "" || got.stderr == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
