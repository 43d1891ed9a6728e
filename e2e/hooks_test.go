package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
)

// hooks: a developer's hook is told what happens to the namespace, over a root that is
// killed while its receiver fails; and a gate is heeded, and its reason written down.
func (w *world) hooks(t *testing.T) {
	const key = "0123456789012345678901234567"
	secret := w.file("hook-", "whsec_"+base64.StdEncoding.EncodeToString([]byte(key))+"\n")
	dev := w.user(w.root, "hooker", "--developer", "shop")
	type heard struct {
		id string
		apiv1.HookMessage
	}
	var mu sync.Mutex
	var took []heard
	status, says := http.StatusServiceUnavailable, ""
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		h := hmac.New(sha256.New, []byte(key))
		h.Write([]byte(r.Header.Get("webhook-id") + "." + r.Header.Get("webhook-timestamp") + "." + string(body)))
		m := heard{id: r.Header.Get("webhook-id")}
		if err != nil || json.Unmarshal(body, &m.HookMessage) != nil || r.Header.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)) {
			t.Errorf("%q is not signed as it should be: %v", body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(m.Type, "before.") {
			_, _ = io.WriteString(rw, says)
			return
		}
		rw.WriteHeader(status)
		if status == http.StatusOK {
			took = append(took, m)
		}
	}))
	defer receiver.Close()
	if r := verge(t, dev, "hook", "set", "told", "-n", "shop", "--url", receiver.URL, "--plain-http", "--on", "*", "--secret-file", secret); r.code != 0 {
		t.Fatal(r.err)
	}
	refused(t, "a developer's hook of everything", verge(t, dev, "hook", "set", "all", "-A", "--url", "https://x.example", "--on", "*", "--secret-file", secret), "an administrator")
	refused(t, "an address of this machine", verge(t, dev, "hook", "test", "told", "-n", "shop"), "loopback", "--hooks-allow")
	restart := func() {
		w.root.kill()
		w.root.start()
		w.root.answers()
	}
	w.root.args = append(w.root.args, "--hooks-allow", "127.0.0.0/8")
	restart()
	refused(t, "a receiver that fails", verge(t, dev, "hook", "test", "told", "-n", "shop"), "503")

	const app = "application: hooked\nnamespace: shop\nservices:\n  main:\n    command: [testprogram, serve]\n    resources: {cpu: 50m, memory: 16Mi}\n"
	if r := verge(t, dev, "apply", w.file("app-", app)); r.code != 0 {
		t.Fatal(r.err)
	}
	waiting := func() error {
		if out := verge(t, dev, "hook", "ls", "-n", "shop", "-o", "json").out; !strings.Contains(out, `"state": "failing"`) || strings.Contains(out, "whsec") {
			return errText(out)
		}
		return nil
	}
	eventually(t, 30*time.Second, "the hook fails and keeps what waits", waiting)
	restart()
	eventually(t, 30*time.Second, "after the root was killed, too", waiting)
	mu.Lock()
	status, says = http.StatusOK, `{"allow": false, "reason": "not on a Friday"}`
	mu.Unlock()
	if r := verge(t, dev, "hook", "resume", "told", "-n", "shop"); r.code != 0 {
		t.Fatal(r.err)
	}
	w.root.ok("hook", "set", "gate", "-A", "--url", receiver.URL, "--plain-http", "--before", "delete", "--secret-file", secret)
	refused(t, "what a gate refuses", verge(t, dev, "delete", "application/hooked"), "not on a Friday", "gate")
	wantWords(t, "the audit log", w.root.ok("audit", "-o", "json"), "refused-by-hook", "not on a Friday")
	mu.Lock()
	says = `{"allow": true}`
	mu.Unlock()
	if r := verge(t, dev, "delete", "application/hooked"); r.code != 0 {
		t.Fatal(r.err)
	}
	want := []string{event.ApplicationApplied.String(), event.InstanceRunning.String(), event.ApplicationDeleting.String(), event.InstanceEnded.String(), event.ApplicationDeleted.String()}
	eventually(t, 30*time.Second, "all of it was told, once and in order", func() error {
		mu.Lock()
		defer mu.Unlock()
		var kinds []string
		seen := map[string]bool{}
		for _, m := range took {
			if m.Data.Application == "hooked" && !seen[m.id] {
				kinds = append(kinds, m.Type)
			}
			seen[m.id] = true
			if m.Data.Namespace != "shop" {
				return fmt.Errorf("it was told %+v", m)
			}
		}
		if strings.Join(kinds, " ") != strings.Join(want, " ") {
			return fmt.Errorf("%v, want %v", kinds, want)
		}
		return nil
	})
	w.root.ok("hook", "rm", "gate", "-A")
	if r := verge(t, dev, "hook", "rm", "told", "-n", "shop"); r.code != 0 {
		t.Error(r.err)
	}
}
