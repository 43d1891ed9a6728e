package agent

import (
	"context"
	"errors"
	"time"

	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/agent/enginehost"
)

// An engine that ends is noticed by its socket. One that stays and does nothing
// (stopped by a signal, stuck in the kernel, deadlocked) is not: it is asked.
const (
	// muteAfter is a count of questions in a row without an answer, as enginehost.KillAfter.
	muteAfter = 2
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
				if remote, ok := a.client.(*engineclient.Remote); ok && missed > 0 {
					_, _ = a.keeper.Running(ctx, remote) // who reads the logs from now on
				}
				break
			}
			missed++
			if a.keeper != nil {
				a.keeper.StandIn()
			}
			if missed >= muteAfter {
				a.mute(errMute)
			}
			if missed == enginehost.KillAfter && a.keeper != nil {
				a.log.Error("the engine has not answered for too long and is ended, its successor takes over what it holds")
				if err := a.keeper.Kill(ctx); err != nil {
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
	ctx, cancel := context.WithTimeout(ctx, enginehost.AnswerWithin)
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
		a.log.Error("the engine does not answer although its process is there: the state of the instances is unknown")
	} else {
		a.log.Info("the engine answers again")
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
}
