package api

import (
	"slices"
	"testing"
)

func TestSecretsOfAService(t *testing.T) {
	for _, c := range []struct {
		s    Service
		want []string
	}{
		{Service{}, nil},
		{Service{Files: map[string]File{"a": {Content: "x"}}}, nil},
		{Service{
			EnvSecrets: map[string]string{"B": "two", "A": "one", "C": "two"},
			Files:      map[string]File{"a": {Content: "x"}, "b": {Secret: "three"}, "c": {Secret: "one"}},
		}, []string{"one", "three", "two"}},
	} {
		if got := c.s.Secrets(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.s, got, c.want)
		}
	}
}
