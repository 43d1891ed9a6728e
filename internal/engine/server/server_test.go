package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// fake notes what it was asked, and answers with an error.
type fake struct {
	Engine // of what it does not do nothing is called
	err    error
	after  uint64
	wait   time.Duration
	log    rpc.LogAsk
}

func (f *fake) State(_ context.Context, after uint64, wait time.Duration) (engineapi.EngineState, error) {
	f.after, f.wait = after, wait
	return engineapi.EngineState{Seq: 7}, f.err
}

func (f *fake) Logs(_ context.Context, _ wire.InstanceID, q rpc.LogAsk) (rpc.LogChunk, error) {
	f.log = q
	return rpc.LogChunk{}, f.err
}

// Numbers are bounded, so that no time overflows; what is no number is refused.
func TestNumbersAreBounded(t *testing.T) {
	f := &fake{}
	h := New(f, slog.New(slog.DiscardHandler)).Handler()
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w
	}
	if w := get("/v1/state?after=5&wait=99999999999999"); w.Code != http.StatusOK || f.after != 5 ||
		f.wait != state.MaxWait || !strings.Contains(w.Body.String(), `"seq":7`) {
		t.Errorf("%d after %d, waits %s: %s", w.Code, f.after, f.wait, w.Body)
	}
	if w := get("/v1/logs?instance=a.b.0&since=99999999999999999&max=99999999&previous=1"); w.Code != http.StatusOK ||
		f.log.Since <= 0 || f.log.Max <= 0 || !f.log.Previous {
		t.Errorf("%d: %+v", w.Code, f.log)
	}
	if w := get("/v1/state?after=x"); w.Code != http.StatusBadRequest {
		t.Errorf("no number: %d", w.Code)
	}
}

// Each error has the status and code by which the agent knows what to do.
func TestErrorsAreProblems(t *testing.T) {
	for code, c := range map[string]struct {
		err    error
		status int
	}{
		"no-instance":   {fmt.Errorf("%w: a.b.0", state.ErrNoInstance), 404},
		"stopped":       {state.ErrStopped, 503},
		"bad-request":   {fmt.Errorf("%w: x", state.ErrBadQuery), 400},
		"engine-failed": {errors.New("the disk"), 500},
		"teapot":        {wire.Problemf(418, "teapot", "", "no", ""), 418},
	} {
		w := httptest.NewRecorder()
		New(&fake{err: c.err}, slog.New(slog.DiscardHandler)).Handler().ServeHTTP(w,
			httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/state", nil))
		if w.Code != c.status || !strings.Contains(w.Body.String(), `"`+code+`"`) {
			t.Errorf("%v: %d %s", c.err, w.Code, w.Body)
		}
	}
}
