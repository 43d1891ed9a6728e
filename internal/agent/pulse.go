package agent

import (
	"context"
	"errors"
	"time"
)

// An engine that ends is noticed by its socket. One that stays and does nothing
// (stopped by a signal, stuck in the kernel, deadlocked) is not: it is asked.
const (
	// pulseWithin is how long one answer may take. It is a millisecond where all is
	// well, and more on a board that swaps.
	pulseWithin = 1500 * time.Millisecond
	// goneWithin is how long an engine that is killed may take to be gone: the kernel
	// takes its memory first, and waits for the disk where a thread of it does.
	goneWithin = 15 * time.Second
	// muteAfter and killAfter are counts of questions in a row without an answer.
	// They are not spans of time: an agent that did not run itself must not blame
	// its engine for it.
	muteAfter = 2
	killAfter = 20
	// pulseAgain is the pause between two questions to an engine that is mute.
	pulseAgain = time.Second
)

// errMute is that an engine's process is there and does not answer.
var errMute = errors.New("its engine does not answer")

// feel asks for the engine's pulse soon. It is called with each report, so that an
// idle worker is not woken for it.
func (a *Agent) feel() {
	select {
	case a.pulse <- struct{}{}:
	default:
	}
}

// watchPulse asks the engine whether it is there whenever somebody wants to know,
// says so where it is not, and ends an engine that does not come back: what it
// holds its successor takes over, as after a crash.
func (a *Agent) watchPulse(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.pulse:
		}
		for missed := 0; ctx.Err() == nil; {
			if a.answers(ctx) {
				a.mute(nil)
				if remote, ok := a.client.(*Remote); ok && missed > 0 {
					_, _ = a.keeper.running(ctx, remote) // who reads the logs from now on
				}
				break
			}
			missed++
			if a.keeper != nil {
				a.keeper.standIn()
			}
			if missed >= muteAfter {
				a.mute(errMute)
			}
			if missed == killAfter && a.keeper != nil {
				a.log.Error("the engine has not answered for too long and is ended, its successor takes over what it holds")
				if err := a.keeper.kill(ctx); err != nil {
					a.log.Error("ending the engine", "error", err)
				}
				missed = muteAfter // the next one has as long
			}
			if missed < muteAfter {
				continue
			}
			select {
			case <-ctx.Done():
			case <-time.After(pulseAgain):
			}
		}
	}
}

// answers says whether the engine answers a question for nothing new. One that is
// not there at all is another matter: watch starts it.
func (a *Agent) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pulseWithin)
	defer cancel()
	a.mu.Lock()
	seq := a.seq
	a.mu.Unlock()
	_, err := a.client.State(ctx, seq, 0)
	return err == nil || ctx.Err() == nil
}

// mute notes why nothing that this worker says about its instances counts, nil if
// it does.
func (a *Agent) mute(err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.impaired == why {
		return
	}
	a.impaired = why
	if err != nil {
		a.log.Error("the engine does not answer, and its process is there: what runs here cannot be vouched for")
	} else {
		a.log.Info("the engine answers again")
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
}
