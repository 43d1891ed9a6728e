package survey_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/survey"
	"github.com/verge-edge/verge/internal/wire"
)

// While as many workers as may be have a question and none answers, nobody else is asked, and
// the model is free.
func TestQuestionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.NewCore(t, bustest.NewMemStore())
		asked, answer := 0, make(chan struct{})
		for n := range 2 * proximity.SurveyAtOnce {
			name := fmt.Sprintf("w%03d", n)
			w := state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: name}}, time.Now())
			w.EverHeard, w.Connected, w.Heard = true, true, time.Now()
			core.Do(c, func(m *state.Model) { m.Workers[name] = w })
			stop, err := c.Local.Subscribe(exchange.WorkerSubjects(name).Ask, func(_ context.Context, m bus.Msg) {
				core.Do(c, func(*state.Model) { asked++ })
				<-answer
				if err := m.Respond([]byte(`{"v":1,"d":{"v":1}}`)); err != nil && !errors.Is(err, bus.ErrClosed) {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
		}
		core.Do(c, func(m *state.Model) {
			m.Shares["app.api"] = &wire.Share{App: "app", Service: "api",
				Spec: &api.Service{Latency: []api.Latency{{To: "web", Max: api.Duration(time.Millisecond)}}}}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			survey.RunSurvey(ctx, c)
		}()
		synctest.Wait()
		core.Do(c, func(*state.Model) {
			if asked != proximity.SurveyAtOnce {
				t.Errorf("%d are asked at once, want %d", asked, proximity.SurveyAtOnce)
			}
		})
		close(answer)
		synctest.Wait()
		core.Do(c, func(*state.Model) {
			if asked != 2*proximity.SurveyAtOnce {
				t.Errorf("%d of %d were asked", asked, 2*proximity.SurveyAtOnce)
			}
		})
		cancel()
		<-ended
	})
}
