package registry

import (
	"strings"
	"testing"
)

func TestLogins(t *testing.T) {
	const value = `{"auths": {
		"https://index.docker.io/v1/": {"auth": "aHViOnB3OjE="},
		"registry.test:5000": {"username": "u", "password": "p"},
		"registry.test:5000/team/a": {"username": "a", "password": "b"},
		"token.test": {"identitytoken": "t"}}}`
	logins, err := Parse([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		image, host string
		want        Login
	}{
		{"docker.io/library/redis:7", "registry-1.docker.io", Login{User: "hub", Secret: "pw:1"}},
		{"registry.test:5000/x:1", "registry.test:5000", Login{User: "u", Secret: "p"}},
		{"registry.test:5000/team/a/b:1", "registry.test:5000", Login{User: "a", Secret: "b"}},
		{"registry.test:5000/team/ab:1", "registry.test:5000", Login{User: "u", Secret: "p"}},
		{"token.test/x", "token.test", Login{Secret: "t"}},
		{"registry.test/x:1", "registry.test", Login{}},
	} {
		if got, _ := logins.For(x.image, x.host); got != x.want {
			t.Errorf("%s at %s: %+v", x.image, x.host, got)
		}
	}
	for _, bad := range []string{"", "hunter2", `{"auths": {}}`, `{"auths": {"x": {"auth": "hunter2!"}}}`,
		`{"auths": {"x": {"auth": "aHVudGVyMg=="}}}`} {
		if _, err := Parse([]byte(bad)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	made, err := New("https://registry.test/", "me", "secret")
	if err != nil {
		t.Fatal(err)
	}
	if logins, err = Parse(made); err != nil || logins["registry.test"] != (Login{User: "me", Secret: "secret"}) {
		t.Errorf("%+v, %v", logins, err)
	}
}
