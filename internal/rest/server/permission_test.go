package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
)

// An operation that does not say what it needs is refused to everybody, and one
// that says what cannot be found in its input does not start at all.
func TestUndeclaredOperationsAreRefused(t *testing.T) {
	ran := false
	s := bare(t)
	run := func(context.Context, any) (any, error) {
		ran = true
		return rest.None{}, nil
	}
	s.serve(operation("forgotten", rest.Need{}), run)
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
	s.serve(operation("astray", rest.GetApplication.Needs), run)
	s.serve(operation("mistyped", rest.CreateToken.Needs), run)
	s.serve(operation("bodiless", rest.Apply.Needs), run)
	s.stream(&rest.Operation{Method: http.MethodGet, Path: "/v1/raw", Needs: rest.GetInstance.Needs}, nil)
	if len(s.wrong) != 4 {
		t.Errorf("4 operations without their object gave %v", s.wrong)
	}
}

// operation is one that takes and answers nothing.
func operation(id string, n rest.Need) *rest.Operation {
	none := reflect.TypeFor[rest.None]()
	return &rest.Operation{ID: id, Method: http.MethodGet, Path: "/v1/" + id, Needs: n, In: none, Out: none}
}

// A server of which a part of the operations is neither served nor referred does not start,
// nor one that refers to another place what it serves.
func TestEveryOperationIsServedOrReferred(t *testing.T) {
	_, err := New(Options{Backend: everyones{}})
	for _, o := range append(rest.Operations(), rest.TakeBackup, rest.GetObject) {
		want := o != rest.GetVersion.Operation && o != rest.WhoAmI.Operation
		if got := strings.Contains(err.Error(), o.ID+" is neither served"); got != want {
			t.Errorf("%s: said to be missing: %t", o.ID, got)
		}
	}
	_, err = New(Options{Backend: everyones{},
		Referrals: rest.Referrals{rest.GetVersion.ID: rest.AtRoot("it"), rest.GetUpgrade.ID: rest.AtRoot("it")}})
	if text := err.Error(); !strings.Contains(text, "get-version is served here and referred") ||
		strings.Contains(text, "get-upgrade ") {
		t.Error(text)
	}
}

// bare is a server of everyones that serves nothing of the interface.
func bare(t *testing.T) *Server {
	t.Helper()
	s, err := build(Options{Backend: everyones{}})
	if err != nil {
		t.Fatal(err)
	}
	s.wrong = nil
	return s
}

// everyones is a Backend that takes everybody for an administrator.
type everyones struct{ rest.Backend }

func (everyones) Authenticate(context.Context, string) (rest.Principal, error) {
	return rest.Principal{Who: access.Who{Name: "admin", Admin: true}}, nil
}

func (everyones) Record(context.Context, apiv1.AuditEntry) error { return nil }

func (everyones) Locate(access.Kind, string) (access.Object, bool) {
	return access.Object{Namespace: "shop"}, true
}

// A handler of a stream is held to what it declares.
func TestRawHandlersAreHeldToTheirNeed(t *testing.T) {
	s := bare(t)
	s.stream(&rest.Operation{Method: http.MethodGet, Path: "/v1/raw/{id}", Needs: rest.StartExec.Needs},
		func(w http.ResponseWriter, _ *http.Request) { plain(w, "in") })
	for want, who := range map[int]access.Who{
		200: {Namespaces: map[string]access.Role{"shop": access.Developer}},
		403: {Namespaces: map[string]access.Role{"shop": access.Viewer}},
		404: {Namespaces: map[string]access.Role{"bank": access.Developer}},
	} {
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/raw/a.b.0",
			nil).WithContext(access.With(t.Context(), who)))
		if w.Code != want {
			t.Errorf("%+v got %d %s", who, w.Code, w.Body)
		}
	}
}

// The context of a request ends with the rights of its caller.
func TestRequestsEndWithRights(t *testing.T) {
	gone := make(chan struct{})
	ctx, end := bound(t.Context(), rest.Principal{Ended: gone})
	defer end()
	if ctx.Err() != nil || ended(ctx) != nil {
		t.Fatal("ended too early")
	}
	close(gone)
	<-ctx.Done()
	if err := ended(ctx); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("got %v", err)
	}

	ctx, stop := bound(t.Context(), rest.Principal{Left: 1})
	defer stop()
	<-ctx.Done()
	if ended(ctx) == nil {
		t.Error("an expired token's request goes on")
	}

	ctx, stop = bound(t.Context(), rest.Principal{})
	stop()
	<-ctx.Done()
	if ended(ctx) != nil {
		t.Error("a request that was answered is said to be cut off")
	}
}
