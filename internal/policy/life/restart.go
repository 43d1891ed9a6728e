package life

import (
	"cmp"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Restarting in place.
const (
	// FirstBackoff precedes the first restart in a row; each further one waits twice as long, up to
	// MaxBackoff. delay and max_delay of the descriptor replace them.
	FirstBackoff = time.Duration(api.DefaultDelay)
	MaxBackoff   = time.Duration(api.DefaultMaxDelay)
	// Calm is the run time after which earlier exits no longer count.
	Calm = 60 * time.Second
)

// Action is what to do about an instance that exited by itself. At most one of Restart, GiveUp and
// Completed is set; none means that it failed and must not run again anywhere (policy "never").
type Action struct {
	// Restart it in place, After this long.
	Restart bool
	After   time.Duration
	// GiveUp on it here: it is placed elsewhere.
	GiveUp bool
	// Completed: it ended well and was meant to end.
	Completed bool
	// InARow is the number of exits in a row, to pass to the next call.
	InARow int
	// Why in words: "exit code 7, restart 2 of 5 in 180ms".
	Why string
}

// Restart decides about an exit. inARow is the number of exits in a row before
// this one (0: the first), from Action.InARow; ranFor is the monotonic duration of
// this run: Calm or longer resets the count. seed varies the backoff between
// instances, so that those that fail together do not restart together.
//
// Policy "always" (and "") restarts after every exit, "on-failure" after all but
// clean ones, "never" after none. If a clean exit leads to a restart it counts like
// a failure: a program that ends at once must not spin. An exit that nobody saw is a
// failure. After MaxRestarts in a row the instance is given up.
func Restart(policy api.Restart, exit wire.Exit, inARow int, ranFor time.Duration, seed uint64) Action {
	said := Describe(exit)
	clean := Clean(exit)
	if ranFor >= Calm {
		inARow = 0
	}
	inARow = max(0, inARow)
	switch {
	case clean && (policy.Policy == "never" || policy.Policy == "on-failure"):
		return Action{Completed: true, Why: "completed with " + said}
	case policy.Policy == "never":
		return Action{InARow: inARow + 1, Why: said + ", the restart policy is never"}
	}
	most := api.DefaultMaxRestarts
	if policy.MaxRestarts != nil {
		most = max(0, *policy.MaxRestarts)
	}
	if inARow >= most {
		return Action{GiveUp: true, InARow: inARow + 1,
			Why: fmt.Sprintf("%s, gave up here after %d restarts in a row", said, most)}
	}
	after := Backoff(policy, inARow, seed)
	return Action{
		Restart: true, After: after, InARow: inARow + 1,
		Why: fmt.Sprintf("%s, restart %d of %d in %s", said, inARow+1, most, rounded(after)),
	}
}

// Backoff is the wait before the restart that follows inARow others.
func Backoff(policy api.Restart, inARow int, seed uint64) time.Duration {
	first := cmp.Or(policy.Delay.Std(), FirstBackoff)
	return backoff(first, max(first, cmp.Or(policy.MaxDelay.Std(), MaxBackoff)), max(0, inARow), seed)
}

// backoff doubles from first to most and subtracts up to a quarter: the cap holds, and since
// doubling adds more than that, a later restart never waits less than an earlier one.
func backoff(first, most time.Duration, inARow int, seed uint64) time.Duration {
	d := first
	for range inARow {
		if d *= 2; d >= most {
			d = most
			break
		}
	}
	// SplitMix64: adjacent seeds give unrelated values.
	x := seed + (uint64(inARow)+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return d - time.Duration(float64(d/4)*(float64(x>>11)/(1<<53)))
}

func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// Clean says whether a program ended by itself and successfully. One that its worker ended did not,
// whatever its exit code.
func Clean(exit wire.Exit) bool {
	return exit.Code == 0 && exit.Signal == "" && !exit.OOM && !exit.Unknown && exit.Why == ""
}

// Describe says how a process ended.
func Describe(e wire.Exit) string {
	switch {
	case e.Why != "":
		return e.Why
	case e.OOM:
		return "killed for using more memory than its limit"
	case e.Unknown:
		return "ended while nobody was watching"
	case e.Signal != "":
		return "killed by signal " + e.Signal
	default:
		return fmt.Sprintf("exit code %d", e.Code)
	}
}
