package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// An operation that does not say what it needs is refused to everybody, and one
// that says what cannot be found in its input does not start at all.
func TestUndeclaredOperationsAreRefused(t *testing.T) {
	ran := false
	s := bare(t)
	register(s, s.newAPI(), op("forgotten", http.MethodGet, "/v1/forgotten", "", need{}), func(context.Context, *none) (none, error) {
		ran = true
		return none{}, nil
	})
	s.mux.HandleFunc("GET /v1/beside", func(http.ResponseWriter, *http.Request) { ran = true })
	for _, path := range []string{"/v1/forgotten", "/v1/beside"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer x")
		w := httptest.NewRecorder()
		s.authenticate(s.mux).ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "undeclared") || ran {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if len(s.wrong) != 0 {
		t.Errorf("%v", s.wrong)
	}
	register(s, s.newAPI(), op("astray", http.MethodGet, "/v1/astray", "", may(access.See, app("app"))), func(context.Context, *none) (none, error) { return none{}, nil })
	register(s, s.newAPI(), op("mistyped", http.MethodGet, "/v1/mistyped", "", may(access.See, about(ofToken))), func(context.Context, *none) (none, error) { return none{}, nil })
	register(s, s.newAPI(), op("bodiless", http.MethodGet, "/v1/bodiless", "", may(access.Apply, inDescriptor)), func(context.Context, *none) (none, error) { return none{}, nil })
	s.handle("GET /v1/raw", may(access.See, instance("id")), nil)
	if len(s.wrong) != 4 {
		t.Errorf("4 operations without their object gave %v", s.wrong)
	}
}

func bare(t *testing.T) *Server {
	t.Helper()
	s, err := New(Options{Backend: everyones{}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// everyones is a Backend that takes everybody for an administrator.
type everyones struct{ Backend }

func (everyones) Authenticate(context.Context, string) (Principal, error) {
	return Principal{Who: access.Who{Name: "admin", Admin: true}}, nil
}

func (everyones) Record(context.Context, wire.AuditEntry) error { return nil }

func (everyones) Locate(access.Kind, string) (access.Object, bool) {
	return access.Object{Namespace: "shop"}, true
}

// A handler beside huma's is held to what it declares.
func TestRawHandlersAreHeldToTheirNeed(t *testing.T) {
	s := bare(t)
	s.handle("GET /v1/raw/{id}", may(access.Exec, instance("id")), func(w http.ResponseWriter, _ *http.Request) { plain(w, "in") })
	for want, who := range map[int]access.Who{
		200: {Namespaces: map[string]access.Role{"shop": access.Developer}},
		403: {Namespaces: map[string]access.Role{"shop": access.Viewer}},
		404: {Namespaces: map[string]access.Role{"bank": access.Developer}},
	} {
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/raw/a.b.0", nil).WithContext(access.With(t.Context(), who)))
		if w.Code != want {
			t.Errorf("%+v got %d %s", who, w.Code, w.Body)
		}
	}
}

// The context of a request ends with the rights of its caller.
func TestRequestsEndWithRights(t *testing.T) {
	gone := make(chan struct{})
	ctx, end := Principal{Ended: gone}.bound(t.Context())
	defer end()
	if ctx.Err() != nil || ended(ctx) != nil {
		t.Fatal("ended too early")
	}
	close(gone)
	<-ctx.Done()
	if err := ended(ctx); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("got %v", err)
	}

	ctx, stop := Principal{Left: 1}.bound(t.Context())
	defer stop()
	<-ctx.Done()
	if ended(ctx) == nil {
		t.Error("an expired token's request goes on")
	}

	ctx, stop = Principal{}.bound(t.Context())
	stop()
	<-ctx.Done()
	if ended(ctx) != nil {
		t.Error("a request that was answered is said to be cut off")
	}
}
