package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of what a visitor may send and of what one page shows.
const (
	maxForm = 8 << 10
	maxName = 60  // characters
	maxText = 500 // characters
	onPage  = 50
	patient = 5 * time.Second // with the store
	brief   = time.Second     // with its copy, which nobody has to wait for
)

//go:embed page.html
var pageSource string

var page = template.Must(template.New("page").Parse(pageSource))

// entry of the guestbook.
type entry struct {
	Name string    `json:"name"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
	By   string    `json:"by"` // the instance that took it
}

// book is where entries are kept.
type book interface {
	// add keeps an entry for good and says how many there are.
	add(ctx context.Context, e entry) (total int, err error)
	// latest are the last entries, newest first, and how many there are in all.
	latest(ctx context.Context, n int) (entries []entry, total int, err error)
	// count says how many there are.
	count(ctx context.Context) (int, error)
}

// self is who answers.
type self struct {
	Instance string `json:"instance"`
	Worker   string `json:"worker"`
	Cluster  string `json:"cluster"`
}

// front answers visitors.
type front struct {
	book book
	copy book // nil if there is none
	self self
}

func (f *front) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", f.show)
	mux.HandleFunc("POST /{$}", f.sign)
	mux.HandleFunc("GET /api/entries", f.list)
	mux.HandleFunc("POST /api/entries", f.post)
	// Ready does not mean that the store is: its absence would take out every
	// front, and none could say so to the visitor.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Guestbook-Instance", f.self.Instance)
		h.Set("X-Guestbook-Worker", f.self.Worker)
		h.Set("X-Guestbook-Cluster", f.self.Cluster)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		mux.ServeHTTP(w, r)
	})
}

func (f *front) show(w http.ResponseWriter, r *http.Request) {
	l, err := f.listing(r)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	data := struct {
		listing
		MaxName, MaxText int
	}{l, maxName, maxText}
	if err := page.Execute(w, data); err != nil {
		slog.Warn("a page was not delivered", "error", err)
	}
}

func (f *front) sign(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		fail(w, badRequest{"the form cannot be read, or is too long"})
		return
	}
	if _, _, err := f.add(r, r.PostForm.Get("name"), r.PostForm.Get("text")); err != nil {
		fail(w, err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// listing is the guestbook as JSON.
type listing struct {
	Entries []entry `json:"entries"`
	Total   int     `json:"total"`
	// Copied entries, as far as the copy of the store says so; nil if it does not.
	Copied *int `json:"copied,omitempty"`
	Self   self `json:"answered_by"`
}

func (f *front) list(w http.ResponseWriter, r *http.Request) {
	l, err := f.listing(r)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, l)
}

func (f *front) post(w http.ResponseWriter, r *http.Request) {
	var in struct{ Name, Text string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		fail(w, badRequest{`write {"name": …, "text": …}`})
		return
	}
	e, total, err := f.add(r, in.Name, in.Text)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusCreated, listing{Entries: []entry{e}, Total: total, Self: f.self})
}

func (f *front) listing(r *http.Request) (listing, error) {
	ctx, cancel := context.WithTimeout(r.Context(), patient)
	defer cancel()
	entries, total, err := f.book.latest(ctx, onPage)
	l := listing{Entries: entries, Total: total, Self: f.self}
	if err != nil || f.copy == nil {
		return l, err
	}
	ctx, cancel = context.WithTimeout(ctx, brief)
	defer cancel()
	if n, err := f.copy.count(ctx); err == nil {
		l.Copied = &n
	}
	return l, nil
}

func (f *front) add(r *http.Request, name, text string) (entry, int, error) {
	name, text = strings.TrimSpace(name), strings.TrimSpace(text)
	switch {
	case !utf8.ValidString(name) || !utf8.ValidString(text):
		return entry{}, 0, badRequest{"write it in UTF-8"}
	case name == "" || text == "":
		return entry{}, 0, badRequest{"give a name and a text"}
	case utf8.RuneCountInString(name) > maxName || utf8.RuneCountInString(text) > maxText:
		return entry{}, 0, badRequest{"the name or the text is too long"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), patient)
	defer cancel()
	e := entry{Name: name, Text: text, At: time.Now().UTC(), By: f.self.Instance}
	total, err := f.book.add(ctx, e)
	return e, total, err
}

// badRequest is the visitor's fault.
type badRequest struct{ why string }

func (b badRequest) Error() string { return b.why }

func fail(w http.ResponseWriter, err error) {
	var bad badRequest
	if errors.As(err, &bad) {
		http.Error(w, bad.why, http.StatusBadRequest)
		return
	}
	slog.Warn("the store did not answer", "error", err)
	w.Header().Set("Retry-After", "1")
	http.Error(w, "The guestbook cannot be opened at the moment.", http.StatusServiceUnavailable)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		slog.Warn("an answer was not delivered", "error", err)
	}
}
