package api

import (
	"reflect"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	env := map[string]string{"PORT": "8080", "A": "${PORT}", "EMPTY": ""}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for in, want := range map[string]string{
		"":                "",
		"plain":           "plain",
		"${PORT}":         "8080",
		":${PORT}/${A}x":  ":8080/${PORT}x", // values are not expanded again
		"$$":              "$",
		"$${PORT}":        "${PORT}",
		"$$${PORT}":       "$8080",
		"$PORT":           "$PORT",
		"$":               "$",
		"a$":              "a$",
		"$ $a $1 $(x)":    "$ $a $1 $(x)",
		"[${EMPTY}]":      "[]",
		"${PORT}${PORT}}": "80808080}",
	} {
		if got, err := Expand(in, lookup); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"${":        "no end",
		"a${PORT":   "no end",
		"${}":       "not a reference",
		"${1A}":     "not a reference",
		"${A:-b}":   "not a reference",
		"${ PORT }": "not a reference",
		"${NOPE}":   "no variable",
	} {
		if got, err := Expand(in, lookup); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	long := strings.Repeat("x", 1000)
	if _, err := Expand(strings.Repeat("${X}", 2000), func(string) (string, bool) { return long, true }); err == nil {
		t.Error("2 MB are not too long")
	}
}

func TestResolve(t *testing.T) {
	s := &Service{
		Command: []string{"serve", "${PORT}"},
		Args:    []string{"${MODE}", "$HOME"},
		Env:     map[string]string{"MODE": "m-${PORT}", "PATH": "/opt:${PATH}"},
	}
	base := map[string]string{"PORT": "1", "PATH": "/bin", "OTHER": "o"}
	argv, env, err := s.Resolve(base)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"serve", "1", "m-1", "$HOME"}; !reflect.DeepEqual(argv, want) {
		t.Errorf("argv %q, want %q", argv, want)
	}
	if want := map[string]string{"PORT": "1", "PATH": "/opt:/bin", "OTHER": "o", "MODE": "m-1"}; !reflect.DeepEqual(env, want) {
		t.Errorf("env %q, want %q", env, want)
	}
	if base["PATH"] != "/bin" {
		t.Error("base was changed")
	}
	s.Env["X"] = "${MODE}"
	if _, _, err := s.Resolve(base); err == nil || !strings.Contains(err.Error(), "env.X: ${MODE}") {
		t.Errorf("env refers to env: %v", err)
	}
	many := &Service{Command: []string{"x"}, Env: map[string]string{"BIG": strings.Repeat("x", 100_000)}}
	for range 20 {
		many.Args = append(many.Args, "${BIG}")
	}
	if _, _, err := many.Resolve(nil); err == nil {
		t.Error("2 MB of arguments are not too long")
	}
}

func TestEnvNames(t *testing.T) {
	if got := EnvName("my-store"); got != "VERGE_MY_STORE_ADDR" {
		t.Error(got)
	}
	if got := PortEnvName("admin-2"); got != "PORT_ADMIN_2" {
		t.Error(got)
	}
}

// FuzzExpand: no panic, and a text in which every dollar is doubled comes out as
// it was.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "$$", "${A}", "${", "$${A}", "a$b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > MaxExpandedBytes {
			return
		}
		none := func(string) (string, bool) { return "", false }
		out, err := Expand(strings.ReplaceAll(s, "$", "$$"), none)
		if err != nil || out != s {
			t.Errorf("%q: %q, %v", s, out, err)
		}
		names, err := References(s)
		if _, xerr := Expand(s, func(string) (string, bool) { return "", true }); (err == nil) != (xerr == nil) {
			t.Errorf("%q: references says %v, Expand says %v", s, err, xerr)
		}
		for _, n := range names {
			if !strings.Contains(s, "${"+n+"}") {
				t.Errorf("%q does not refer to %q", s, n)
			}
		}
	})
}
