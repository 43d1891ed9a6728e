package server_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestSecretsOverTheInterface(t *testing.T) {
	f := &resttest.Fake{}
	_, _, entry := resttest.Serve(t, f, nil)
	c := newClient(t, entry)
	binary := "a\x00b\xff\n"
	if v, err := c.Secrets.Set(t.Context(), "default", "db", []byte(binary)); err != nil || v.Name != "db" ||
		v.Namespace != "default" {
		t.Fatalf("%+v, %v", v, err)
	}
	if got := f.SecretValues["default.db"]; got != binary {
		t.Errorf("%q arrived as %q", binary, got)
	}
	most := strings.Repeat("x", wire.MaxSecretBytes)
	if _, err := c.Secrets.Set(t.Context(), "shop", "large", []byte(most)); err != nil ||
		f.SecretValues["shop.large"] != most {
		t.Errorf("the largest: %v", err)
	}
	_, err := c.Secrets.Set(t.Context(), "shop", "larger", []byte(most+most))
	var p *wire.Problem
	if !errors.As(err, &p) || p.Status != 413 || strings.Contains(err.Error(), "xxx") {
		t.Errorf("larger: %v", err)
	}
	if list, err := c.Secrets.List(t.Context(), "shop"); err != nil || len(list) != 1 || list[0].Name != "large" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := c.Secrets.List(t.Context(), ""); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if v, err := c.Secrets.Remove(t.Context(), "shop", "large"); err != nil || v.Name != "large" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := c.Secrets.Remove(t.Context(), "shop", "large"); !errors.As(err, &p) || p.Status != 404 {
		t.Errorf("twice: %v", err)
	}
}

// The names of secrets are for those who may use them.
func TestSecretsAreListedForDevelopers(t *testing.T) {
	f := peopled()
	_, _, entry := resttest.Serve(t, f, nil)
	for name, want := range map[string]int{"developer": 1, "viewer": 0, "operator": 0, "outsider": 0, "nobody": 0} {
		entry.Cert, entry.Key, entry.Token = "", "", name
		list, err := newClient(t, entry).Secrets.List(t.Context(), "")
		if err != nil || len(list) != want {
			t.Errorf("%s sees %+v, %v", name, list, err)
		}
	}
}
