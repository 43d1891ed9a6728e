package supervise

// traffic is whether requests may be sent to an instance.
type traffic uint8

const (
	closed   traffic = iota // it has no task, or is not ready
	open                    // it is ready
	draining                // nothing new is sent; what goes on may end
)

// slumber is where an instance is between sleeping and answering.
type slumber uint8

const (
	awake  slumber = iota // it does not sleep, or has answered since it did
	dozing                // it falls asleep, or was woken and has not answered yet
	asleep                // it sleeps: the next start wakes it, and is no restart
)

// lifecycle is the state of an instance beyond its record. It changes by its methods alone.
type lifecycle struct {
	traffic traffic
	slumber slumber
	// unsure: an earlier engine may have started a task that no file names.
	unsure bool
	// timed: how long the start of the present task took is known, or nobody saw it.
	timed bool
}

// fallAsleep: nothing is to be done about the instance until a request comes.
func (l *lifecycle) fallAsleep() { l.slumber = asleep }

// start: a start begins. It reports whether that wakes the instance.
func (l *lifecycle) start() (wakes bool) {
	wakes = l.slumber == asleep
	if wakes {
		l.slumber = dozing
	}
	return wakes
}

// started: a driver has started a task, and the time until it answers is measured.
func (l *lifecycle) started() { l.timed = false }

// adopted: a task of an earlier engine was found again.
func (l *lifecycle) adopted() { l.timed = true }

// took: there is a task now.
func (l *lifecycle) took() { l.traffic, l.unsure = closed, false }

// watch: the task is seen to. It may have been draining for an end that failed.
func (l *lifecycle) watch() {
	if l.traffic == draining {
		l.traffic = closed
	}
}

// probed: its readiness is known. It reports whether that is news.
func (l *lifecycle) probed(ready bool) (news bool) {
	was := l.traffic
	l.traffic = closed
	if ready {
		l.traffic = open
	}
	return was != l.traffic
}

// answered: the task is ready. first is true where that is the end of its start, woken where
// it slept before.
func (l *lifecycle) answered() (first, woken bool) {
	if l.timed {
		return false, false
	}
	woken = l.slumber != awake
	l.timed, l.slumber = true, awake
	return true, woken
}

// condemn: the task is to end without an end of its requests.
func (l *lifecycle) condemn() { l.traffic = closed }

// drain: the task is to end once its requests have; to sleep where it is to be started again
// by the next one. It returns the traffic before, for resume.
func (l *lifecycle) drain(sleep bool) (was traffic) {
	was, l.traffic = l.traffic, draining
	if sleep {
		l.slumber = dozing
	}
	return was
}

// resume: a request came before the task ended, which continues.
func (l *lifecycle) resume(was traffic) { l.traffic, l.slumber = was, awake }

// ended: the task is gone.
func (l *lifecycle) ended() { l.traffic = closed }

// lost: the task ended while no engine was there; left says that something of it may be.
func (l *lifecycle) lost(left bool) { l.unsure = left }

// swept: nothing of an earlier engine is left.
func (l *lifecycle) swept() { l.unsure = false }

// ready says whether requests may be sent.
func (l *lifecycle) ready() bool { return l.traffic == open }

// sleeps says whether it sleeps, or has not answered since it did.
func (l *lifecycle) sleeps() bool { return l.slumber != awake }
