package life

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func policy(name string, most int) api.Restart {
	return api.Restart{Policy: name, MaxRestarts: &most}
}

func TestRestartPolicies(t *testing.T) {
	ok, bad := wire.Exit{}, wire.Exit{Code: 7}
	unseen, oom, term := wire.Exit{Code: -1, Unknown: true}, wire.Exit{Code: 137, Signal: "KILL", OOM: true}, wire.Exit{Code: 143, Signal: "TERM"}
	const restart, giveUp, completed, failed = "restart", "give up", "completed", "failed"
	for name, c := range map[string]struct {
		policy api.Restart
		exit   wire.Exit
		inARow int
		ranFor time.Duration
		want   string
		why    string
	}{
		"always, clean":                          {policy("always", 3), ok, 0, 0, restart, "exit code 0, restart 1 of 3 in "},
		"always, bad":                            {policy("always", 3), bad, 2, 0, restart, "exit code 7, restart 3 of 3 in "},
		"always, too many":                       {policy("always", 3), bad, 3, 0, giveUp, "exit code 7, gave up here after 3 restarts in a row"},
		"always, clean too often":                {policy("always", 3), ok, 3, 0, giveUp, "exit code 0, gave up here"},
		"default is always":                      {api.Restart{}, ok, 0, 0, restart, "exit code 0, restart 1 of 5 in "},
		"default maximum":                        {api.Restart{}, bad, api.DefaultMaxRestarts, 0, giveUp, "exit code 7, gave up"},
		"calm forgets":                           {policy("always", 3), bad, 3, Calm, restart, "exit code 7, restart 1 of 3"},
		"not quite calm":                         {policy("always", 3), bad, 3, Calm - 1, giveUp, ""},
		"no restarts at all":                     {policy("always", 0), bad, 0, 0, giveUp, ""},
		"negative maximum":                       {policy("always", -2), bad, 0, 0, giveUp, ""},
		"on-failure, clean":                      {policy("on-failure", 3), ok, 2, 0, completed, "completed with exit code 0"},
		"on-failure, bad":                        {policy("on-failure", 3), bad, 0, 0, restart, ""},
		"on-failure, unseen":                     {policy("on-failure", 3), unseen, 0, 0, restart, "ended while nobody was watching"},
		"on-failure, unseen zero":                {policy("on-failure", 3), wire.Exit{Unknown: true}, 0, 0, restart, ""},
		"on-failure, oom":                        {policy("on-failure", 3), oom, 0, 0, restart, "killed for using more memory than its limit"},
		"on-failure, signal":                     {policy("on-failure", 3), term, 0, 0, restart, "killed by signal TERM"},
		"never, clean":                           {policy("never", 3), ok, 0, 0, completed, ""},
		"never, bad":                             {policy("never", 3), bad, 0, 0, failed, "exit code 7, the restart policy is never"},
		"on-failure, ended by its worker, clean": {policy("on-failure", 3), wire.Exit{Why: "liveness: status 500"}, 0, 0, restart, "liveness: status 500, restart 1 of 3 in "},
		"never, ended by its worker, clean":      {policy("never", 3), wire.Exit{Why: "liveness: status 500"}, 0, 0, failed, "liveness: status 500, the restart policy is never"},
		"negative count":                         {policy("always", 3), bad, -9, 0, restart, "exit code 7, restart 1 of 3"},
	} {
		a := Restart(c.policy, c.exit, c.inARow, c.ranFor, 1)
		got := failed
		switch {
		case a.Restart:
			got = restart
		case a.GiveUp:
			got = giveUp
		case a.Completed:
			got = completed
		}
		if got != c.want || !strings.HasPrefix(a.Why, c.why) || a.Why == "" {
			t.Errorf("%s: %s (%s), want %s (%s…)", name, got, a.Why, c.want, c.why)
		}
	}
}

func TestFirstRestartIsAtOnce(t *testing.T) {
	if a := Restart(api.Restart{}, wire.Exit{Code: 1}, 0, 0, 42); a.After > FirstBackoff || a.After < FirstBackoff*3/4 {
		t.Errorf("first restart after %s", a.After)
	}
}

// delay and max_delay of the descriptor stand for the usual back-off.
func TestRestartDelay(t *testing.T) {
	p := policy("always", 100)
	p.Delay, p.MaxDelay = api.Duration(time.Second), api.Duration(5*time.Second)
	for inARow, want := range []time.Duration{1, 2, 4, 5, 5, 5} {
		a := Restart(p, wire.Exit{Code: 1}, inARow, 0, 42)
		if want *= time.Second; a.After > want || a.After < want*3/4 {
			t.Errorf("restart %d after %s, want %s or up to a quarter less", inARow+1, a.After, want)
		}
	}
	p.Delay, p.MaxDelay = api.Duration(10*time.Minute), 0 // longer than the usual cap
	if a := Restart(p, wire.Exit{Code: 1}, 3, 0, 42); a.After > 10*time.Minute || a.After < 7*time.Minute {
		t.Errorf("a delay of 10m waits %s", a.After)
	}
}

func TestRestartProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(0, 100).Draw(t, "max restarts")
		p := policy(rapid.SampledFrom([]string{"always", "on-failure"}).Draw(t, "policy"), most)
		seed := rapid.Uint64().Draw(t, "seed")
		exit := wire.Exit{Code: rapid.IntRange(1, 255).Draw(t, "code")}
		inARow, restarts := 0, 0
		var last time.Duration
		for {
			a := Restart(p, exit, inARow, time.Second, seed)
			if again := Restart(p, exit, inARow, time.Second, seed); again != a {
				t.Fatalf("not deterministic: %+v, %+v", a, again)
			}
			if a.InARow != inARow+1 {
				t.Fatalf("%d in a row after %d", a.InARow, inARow)
			}
			if a.GiveUp {
				break
			}
			if !a.Restart || a.After > MaxBackoff || a.After < FirstBackoff*3/4 {
				t.Fatalf("restart %d: %+v", inARow, a)
			}
			if a.After < last && last < MaxBackoff*3/4 {
				t.Fatalf("restart %d waits %s, the one before %s", inARow, a.After, last)
			}
			last, inARow, restarts = a.After, a.InARow, restarts+1
		}
		if restarts != most {
			t.Fatalf("%d restarts, want %d", restarts, most)
		}
	})
}

// What fell together does not rise together.
func TestJitterSpreads(t *testing.T) {
	const n, bins = 1000, 10
	var hist [bins]int
	for seed := range uint64(n) {
		a := Restart(policy("always", 20), wire.Exit{Code: 1}, 12, 0, seed)
		hist[min(bins-1, int(float64(MaxBackoff-a.After)/float64(MaxBackoff/4)*bins))]++
	}
	for i, h := range hist {
		if h < n/bins/2 || h > n/bins*2 {
			t.Errorf("bin %d has %d of %d: %v", i, h, n, hist)
		}
	}
}
