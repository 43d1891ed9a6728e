package descriptor

import (
	"testing"
)

// A canary has room for its largest step unless somebody says otherwise, and what could not
// be done is refused.
func TestCanaries(t *testing.T) {
	for inside, want := range map[string]int{
		"canary: [{share: 5%}]":                                  3, // a quarter of 10
		"canary: [{share: 5%}, {share: 50%}]":                    5,
		"canary: [{share: 33.4%, for: 1m}]":                      4,
		"canary: [{share: 5%}, {share: 100%}]":                   10,
		"max_surge: 2, canary: [{share: 5%}, {share: 50%}]":      2,
		"max_surge: 50%, canary: [{share: 50%}]":                 5,
		"max_unavailable: 1, canary: [{share: 5%, requests: 9}]": 3,
	} {
		app, _, err := Parse("", []byte("application: a\nservices:\n  web:\n    command: [x]\n    replicas: 10\n    ports: [{protocol: http}]\n    rollout: {"+inside+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", inside, err)
			continue
		}
		if got := app.Services["web"].Surge(10); got != want {
			t.Errorf("%s: a surge of %d, want %d", inside, got, want)
		}
	}
	for inside, service := range map[string]string{
		"canary: [{share: 0%}]":                  "",
		"canary: [{share: 5%}, {share: 5%}]":     "",
		"canary: [{share: 50%}, {share: 5%}]":    "",
		"canary: [{for: 5m}]":                    "",
		"canary: [{share: 5}]":                   "",
		"canary: [{share: 5%, for: 0s}]":         "",
		"canary: [{share: 5%, requests: -1}]":    "",
		"max_surge: 0, canary: [{share: 5%}]":    "",
		"max_surge: 25%, canary: [{share: 50%}]": "",
		"max_errors: 101%":                       "",
		"canary: [{share: 6%}]":                  "    volumes: [{path: d, name: d}]\n",
		"canary: [{share: 1%},{share: 2%},{share: 3%},{share: 4%},{share: 5%},{share: 6%},{share: 7%},{share: 8%},{share: 9%},{share: 10%},{share: 11%}]": "",
	} {
		if _, _, err := Parse("", []byte("application: a\nservices:\n  web:\n    command: [x]\n    replicas: 10\n    ports: [{protocol: http}]\n"+service+"    rollout: {"+inside+"}\n")); err == nil {
			t.Errorf("%s: it is taken", inside)
		}
	}
}
