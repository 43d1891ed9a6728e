package consult_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/wire"
)

// one more service with an instance that waits.
func more(c *core.Core, t *testing.T, services int) (latest string) {
	t.Helper()
	var names []string
	for n := range services {
		names = append(names, fmt.Sprintf("s%d", n))
	}
	delegate(c, t, 1, func(s *api.Service) { s.Resources.CPU = 1 }, names...)
	return "app." + names[services-1] + ".0"
}

func saying(c *core.Core, t *testing.T, text string) (n int) {
	t.Helper()
	for _, e := range c.EventRing.After(t.Context(), 0, 0).Events {
		if strings.Contains(e.What, text) {
			n++
		}
	}
	return n
}

func figure(c *core.Core, name string) float64 {
	return core.View(c, func(_ *state.Model) float64 {
		for _, s := range consult.PluginSamples(c) {
			if s.Name == name {
				return s.Value
			}
		}
		return -1
	})
}

// A plugin that hangs costs three instances their patience. Then rom decides at once,
// until the rest is over: one question tries it out, and others do not wait for it.
func TestAPluginThatHangsIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, hangs := 0, true
		c := advisedCore(t, func(ctx context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
			asked++
			if !hangs {
				return one(q, plugin.Verdict{Ranking: ranking("w2", 1.0)})
			}
			<-ctx.Done()
			return nil, &plugin.Error{Class: plugin.Late, Text: "it did not answer in time"}
		}, "w1", "w2")
		for n := range 3 {
			more(c, t, n+1)
			passes(c, t, 3*time.Second)
		}
		if asked != 3 || saying(c, t, "plugin sage has failed 3 times in a row and is not asked for 5s: it did "+
			"not answer in time; rom decides") != 1 || figure(c, "verge_plugin_resting") != 1 {
			t.Fatalf("asked %d times, %v", asked, c.EventRing.After(t.Context(), 0, 0).Events)
		}
		id := more(c, t, 4)
		begin := time.Now()
		if _, err := controller.Pass(t.Context(), c, begin, true); err != nil {
			t.Fatal(err)
		}
		w, d := where(c, t, id)
		if w == "" || asked != 3 || !strings.Contains(d.Request.Advice.Problem,
			"it was not asked: it has failed 3 times in a row (it did not answer in time), and rests until ") {
			t.Errorf("%s is on %q at once, asked %d times: %+v", id, w, asked, d.Request.Advice)
		}
		if figure(c, "verge_plugin_spared_total") != 1 {
			t.Errorf("%g were spared", figure(c, "verge_plugin_spared_total"))
		}
		// Two at a time when the rest is over: one question, and rom at once for the other.
		time.Sleep(5 * time.Second)
		heardAll(c)
		more(c, t, 6)
		if _, err := controller.Pass(t.Context(), c, time.Now(), true); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		first, _ := where(c, t, "app.s4.0")
		second, d := where(c, t, "app.s5.0")
		if asked != 4 || first != "" || second == "" ||
			!strings.Contains(d.Request.Advice.Problem, "tried out with another question") {
			t.Errorf("asked %d times, the one on %q, the other on %q: %+v", asked, first, second, d.Request.Advice)
		}
		passes(c, t, 3*time.Second)
		if w, _ := where(c, t, "app.s4.0"); w == "" ||
			saying(c, t, "failed 4 times in a row and is not asked for 10s") != 1 {
			t.Errorf("on %q, %v", w, c.EventRing.After(t.Context(), 0, 0).Events)
		}
		// It is well again: the next trial ends it.
		hangs = false
		time.Sleep(10 * time.Second)
		heardAll(c)
		id = more(c, t, 7)
		passes(c, t, 2*time.Second)
		if w, d := where(c, t, id); w != "w2" || d.Request.Advice.Problem != "" || asked != 5 ||
			saying(c, t, "plugin sage answers again") != 1 || figure(c, "verge_plugin_resting") != 0 {
			t.Errorf("on %q, asked %d times: %+v", w, asked, d.Request.Advice)
		}
	})
}

// Where there is no room either, what waits says both, and nobody is asked while the
// plugin rests.
func TestARestingPluginAndNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32 // of each service at the same time
		c := advisedCore(t, func(context.Context, plugin.Question) (map[string]plugin.Verdict, error) {
			asked.Add(1)
			return nil, &plugin.Error{Class: plugin.Unreachable, Text: "it cannot be reached"}
		}, "w1")
		delegate(c, t, 1, func(s *api.Service) { s.Resources.CPU = 1 }, "a", "b", "c")
		passes(c, t, 2*time.Second)
		delegate(c, t, 1, nil, "d", "e", "f") // two have room
		passes(c, t, 2*time.Second)
		placed, waits := 0, ""
		for _, id := range []string{"app.d.0", "app.e.0", "app.f.0"} {
			if w, _ := where(c, t, id); w != "" {
				placed++
			} else {
				waits = id
			}
		}
		if i := c.M.Insts[waits]; placed != 2 || i == nil || i.State != wire.Requested || asked.Load() != 3 {
			t.Errorf("%d placed, asked %d times, %+v", placed, asked.Load(), i)
		}
	})
}

// Who has joined as a plugin is known after a restart, and its keys can be revoked: they
// count no more here, for the workers and for the root.
func TestPluginsOnTheBusOutliveARestart(t *testing.T) {
	store := bustest.NewMemStore()
	put := func(key string, m advisor.Member) {
		t.Helper()
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Put(t.Context(), advisor.KeyMember+key, data); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	put("sage.aa", advisor.Member{V: 1, KeyHash: "aa", NatsKey: "UA", Expires: now.Add(time.Hour)})
	put("sage.bb", advisor.Member{V: 1, KeyHash: "bb", NatsKey: "UB", Expires: now.Add(time.Hour)})
	put("sage-2.cc", advisor.Member{V: 1, KeyHash: "cc", NatsKey: "UC", Expires: now.Add(time.Hour)})
	c := clustertest.NewCore(t, store)
	if who := consult.Holds(c.M, "bb", "", ""); who != "plugin sage" ||
		consult.Holds(c.M, "", "UC", "") != "plugin sage-2" ||
		consult.Holds(c.M, "aa", "UA", "sage.aa") != "" {
		t.Errorf("%s has a key", who)
	}
	gone, err := consult.RevokePlugin(t.Context(), c, "sage", now)
	if err != nil || len(gone) != 2 || gone[0].NatsKey != "UA" || gone[1].NatsKey != "UB" {
		t.Fatalf("%v, %v", gone, err)
	}
	for _, key := range []string{state.KeyGone + "aa", state.KeyRevoked + "bb", state.KeyUp + state.UpRevoked + "aa"} {
		if _, err := store.Get(t.Context(), key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	again := clustertest.NewCore(t, store)
	if len(advisor.Members.Rows(again.M.DB)) != 1 || advisor.Members.Rows(again.M.DB)["sage-2.cc"] == nil ||
		again.M.Gone["bb"] == nil {
		t.Errorf("after a restart: %v, %v", advisor.Members.Rows(again.M.DB), again.M.Gone)
	}
	if _, err := consult.RevokePlugin(t.Context(), c, "sage", now); err == nil {
		t.Error("it is revoked twice")
	}
}
