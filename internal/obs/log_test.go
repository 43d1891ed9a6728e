package obs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

const joinToken = "verge-join-1.eyJ2IjoxfQ-_abc"

type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

func TestSecretsDoNotReachTheLog(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	// Built from parts so that no scanner takes the test for a leak.
	seed := "SU" + strings.Repeat("A2", 28)
	tests := map[string]func(*slog.Logger){
		"token":            func(l *slog.Logger) { l.Info("m", "token", secret) },
		"join_token":       func(l *slog.Logger) { l.Info("m", "join_token", secret) },
		"joinToken":        func(l *slog.Logger) { l.Info("m", "joinToken", secret) },
		"Password":         func(l *slog.Logger) { l.Info("m", "Password", secret) },
		"key as bytes":     func(l *slog.Logger) { l.Info("m", "key", []byte(secret)) },
		"seed":             func(l *slog.Logger) { l.Info("m", "nkey-seed", secret) },
		"bus.jwt":          func(l *slog.Logger) { l.Info("m", "bus.jwt", secret) },
		"authorization":    func(l *slog.Logger) { l.Info("m", "Authorization", secret) },
		"group of secrets": func(l *slog.Logger) { l.Info("m", slog.Group("secret", "a", secret)) },
		"in a group":       func(l *slog.Logger) { l.WithGroup("g").Info("m", "password", secret) },
		"with":             func(l *slog.Logger) { l.With("secret", secret).Info("m") },
		"value: token":     func(l *slog.Logger) { l.Info("m", "line", "got "+joinToken) },
		"value: api token": func(l *slog.Logger) { l.Info("m", "line", "got verge-api-1."+secret) },
		"value: error":     func(l *slog.Logger) { l.Info("m", "err", errors.New("bad "+joinToken)) },
		"message":          func(l *slog.Logger) { l.Info("got " + joinToken) },
		"value: nats seed": func(l *slog.Logger) { l.Info("m", "v", seed) },
		"value: pem": func(l *slog.Logger) {
			l.Info("m", "v", "-----BEGIN PRIVATE KEY-----\n"+secret+"\n-----END PRIVATE KEY-----")
		},
	}
	for name, log := range tests {
		for _, format := range []string{"text", "json"} {
			var out bytes.Buffer
			log(NewLogger(&out, format, slog.LevelInfo))
			got := out.String()
			for _, s := range []string{secret, joinToken, seed} {
				if strings.Contains(got, s) {
					t.Errorf("%s, %s: the log shows the secret: %s", name, format, got)
				}
			}
			if !strings.Contains(got, Redacted) {
				t.Errorf("%s, %s: no %s in %s", name, format, Redacted, got)
			}
		}
	}
}

func TestOrdinaryAttributesReachTheLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := NewLogger(&out, "json", slog.LevelInfo)
	var broken *brokenError
	log.Info("joined", "worker", "w1", "token_id", "0a1b", "public_key", "BEEF", "keys", 3, "err",
		errors.New("no route"), "broken", broken)
	log.Debug("hidden")
	got := out.String()
	for _, want := range []string{`"msg":"joined"`, `"worker":"w1"`, `"token_id":"0a1b"`, `"public_key":"BEEF"`,
		`"keys":3`, `"err":"no route"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	if strings.Contains(got, "hidden") {
		t.Errorf("a record below the level was written: %s", got)
	}
	out.Reset()
	NewLogger(&out, "text", slog.LevelDebug).Debug("shown", "a", 1)
	if !strings.Contains(out.String(), "msg=shown a=1") {
		t.Errorf("text format: %s", out.String())
	}
}
