package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// memory is a book that keeps nothing, or fails.
type memory struct {
	entries []entry
	fails   error
}

func (m *memory) add(_ context.Context, e entry) (int, error) {
	if m.fails == nil {
		m.entries = append([]entry{e}, m.entries...)
	}
	return len(m.entries), m.fails
}

func (m *memory) latest(_ context.Context, n int) ([]entry, int, error) {
	return m.entries[:min(n, len(m.entries))], len(m.entries), m.fails
}

func (m *memory) count(context.Context) (int, error) { return len(m.entries), m.fails }

func serve(b book, method, path, contentType, body string) *httptest.ResponseRecorder {
	f := &front{book: b, self: self{Instance: "guestbook.front.0", Worker: "w", Cluster: "c"}}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	f.handler().ServeHTTP(w, r)
	return w
}

const form = "application/x-www-form-urlencoded"

func TestSignedEntryIsShownEscaped(t *testing.T) {
	m := &memory{}
	w := serve(m, http.MethodPost, "/", form, url.Values{"name": {"Ada"}, "text": {"<script>alert(1)</script>"}}.Encode())
	if w.Code != http.StatusSeeOther {
		t.Fatalf("POST: %d %s", w.Code, w.Body)
	}
	w = serve(m, http.MethodGet, "/", "", "")
	if w.Code != http.StatusOK || w.Header().Get("X-Guestbook-Instance") != "guestbook.front.0" {
		t.Fatalf("GET: %d by %q", w.Code, w.Header().Get("X-Guestbook-Instance"))
	}
	if b := w.Body.String(); !strings.Contains(b, "Ada") || !strings.Contains(b, "&lt;script&gt;") || strings.Contains(b, "<script>") {
		t.Fatalf("page:\n%s", b)
	}
}

func TestJSON(t *testing.T) {
	m := &memory{}
	if w := serve(m, http.MethodPost, "/api/entries", "application/json", `{"name":"Ada","text":"hello"}`); w.Code != http.StatusCreated {
		t.Fatalf("POST: %d %s", w.Code, w.Body)
	}
	var l listing
	w := serve(m, http.MethodGet, "/api/entries", "", "")
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
		t.Fatal(err)
	}
	if l.Total != 1 || len(l.Entries) != 1 || l.Entries[0].Text != "hello" || l.Entries[0].By != "guestbook.front.0" {
		t.Fatalf("%+v", l)
	}
}

func TestCopyIsCountedIfItAnswers(t *testing.T) {
	for _, c := range []struct {
		copied *memory
		want   string
	}{{&memory{entries: make([]entry, 3)}, "3 of them also in the copy"}, {&memory{fails: errors.New("away")}, "0 entries. "}} {
		w := httptest.NewRecorder()
		(&front{book: &memory{}, copy: c.copied}).handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%d, no %q in:\n%s", w.Code, c.want, w.Body)
		}
	}
}

func TestRefused(t *testing.T) {
	fields := func(name, text string) string { return url.Values{"name": {name}, "text": {text}}.Encode() }
	for what, body := range map[string]string{
		"no name": fields("", "x"), "no text": fields("x", " "), "long name": fields(strings.Repeat("ä", maxName+1), "x"),
		"long text": fields("x", strings.Repeat("ä", maxText+1)), "not UTF-8": "name=%ff&text=x", "too large": fields("x", strings.Repeat("x", maxForm)),
	} {
		m := &memory{}
		if w := serve(m, http.MethodPost, "/", form, body); w.Code != http.StatusBadRequest || len(m.entries) > 0 {
			t.Errorf("%s: %d, %d entries", what, w.Code, len(m.entries))
		}
	}
	if w := serve(&memory{}, http.MethodPost, "/", form, fields(strings.Repeat("ä", maxName), "x")); w.Code != http.StatusSeeOther {
		t.Errorf("longest name: %d", w.Code)
	}
	if w := serve(&memory{}, http.MethodGet, "/elsewhere", "", ""); w.Code != http.StatusNotFound {
		t.Errorf("unknown page: %d", w.Code)
	}
}

func TestStoreAway(t *testing.T) {
	m := &memory{fails: errors.New("away")}
	if w := serve(m, http.MethodGet, "/", "", ""); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "away") {
		t.Errorf("GET: %d %s", w.Code, w.Body)
	}
	if w := serve(m, http.MethodGet, "/healthz", "", ""); w.Code != http.StatusNoContent {
		t.Errorf("healthz: %d", w.Code)
	}
}
