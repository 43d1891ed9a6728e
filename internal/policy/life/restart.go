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
	// FirstBackoff is before the first restart in a row; each further one waits
	// twice as long, MaxBackoff at most. Where the descriptor says otherwise, its
	// delay and max_delay count.
	FirstBackoff = time.Duration(api.DefaultDelay)
	MaxBackoff   = time.Duration(api.DefaultMaxDelay)
	// Calm is how long an instance must have run for its earlier exits to be
	// forgotten.
	Calm = 60 * time.Second
)

// Action is what to do about an instance that exited by itself. At most one of
// Restart, GiveUp and Completed is set; none of them means that it failed and is
// not to run again, here or elsewhere (policy "never").
type Action struct {
	// Restart it in place, After this long.
	Restart bool
	After   time.Duration
	// GiveUp on it here: it is to be placed elsewhere.
	GiveUp bool
	// Completed: it ended well and was meant to end.
	Completed bool
	// InARow is the count of exits in a row to remember and to pass the next time.
	InARow int
	// Why in words: "exit code 7, restart 2 of 5 in 180ms".
	Why string
}

// Restart decides about an exit. inARow is the number of exits in a row before
// this one (0: the first), as Action.InARow said; ranFor is how long, by a
// monotonic clock, this run lasted: Calm or longer starts the count anew. seed
// varies the back-off between instances, so that what fell together does not
// rise together.
//
// Policy "always" (and "") restarts after every exit, "on-failure" after all but
// a clean one, "never" not. A clean exit counts like a failure where it is
// restarted: a program that ends at once, well or not, must not spin. An exit
// that nobody saw is a failure. After MaxRestarts in a row it is given up.
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
			Why: fmt.Sprintf("%s, given up here after %d restarts in a row", said, most)}
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

// backoff doubles from first to most and takes off up to a quarter: downwards,
// so that the cap holds, and less than doubling adds, so that a later restart
// never waits less than an earlier one.
func backoff(first, most time.Duration, inARow int, seed uint64) time.Duration {
	d := first
	for range inARow {
		if d *= 2; d >= most {
			d = most
			break
		}
	}
	// SplitMix64: neighbouring seeds give unrelated values.
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

// Clean says whether an instance ended as a program does that is done. One that
// its worker ended was not done, whatever its exit code.
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
