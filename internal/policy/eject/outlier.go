package eject

import "time"

// Limits of an outlier.
const (
	// OutlierAfter is how many failed answers in a row make one.
	OutlierAfter = 5
	// FirstOut is the duration of the first ejection; each further one lasts twice as long, up to
	// MaxOut.
	FirstOut = 5 * time.Second
	MaxOut   = 5 * time.Minute
)

// Outlier is the record of an endpoint's answers, as Health is of its reachability. It is a value:
// methods return the next one. The zero value is clean.
//
// An endpoint that answers cannot be probed without sending it a request, so it returns when its
// time is over, one failed answer away from the next ejection.
type Outlier struct {
	inARow int
	times  int       // ejections since the record was clean
	until  time.Time // ejected; zero: never
}

// Answered is the record after an answer, and whether it ejects the endpoint now.
func (o Outlier) Answered(now time.Time, failed bool) (_ Outlier, ejected bool) {
	if !failed {
		o.inARow = 0
		if o.times > 0 && now.Sub(o.until) > Forget {
			o.times = 0
		}
		return o, false
	}
	o.inARow++
	if o.inARow < OutlierAfter || now.Before(o.until) {
		return o, false
	}
	out := MaxOut
	if o.times < 8 {
		out = min(FirstOut<<o.times, MaxOut)
	}
	o.inARow = OutlierAfter - 1
	o.times++
	o.until = now.Add(out)
	return o, true
}

// Out says whether the endpoint is ejected at now, and until when.
func (o Outlier) Out(now time.Time) (until time.Time, out bool) {
	return o.until, now.Before(o.until)
}

// MayEject is the panic rule: whether one more of n endpoints may be ejected when out of them are.
// At most half are: what everybody answers is not an outlier.
func MayEject(n, out int) bool { return 2*(out+1) <= n }

// Budget bounds retries to a share of the requests, so that they cannot make an
// overload worse. The zero value is full. It is a value: methods return the next one.
type Budget struct{ spent int }

// A Budget allows one retry for retryShare requests, retryBurst at once.
const (
	retryShare = 5
	retryBurst = 10
)

// Request is the budget after another request.
func (b Budget) Request() Budget { return Budget{max(b.spent-1, 0)} }

// Retry is the budget after a retry, and whether there may be one.
func (b Budget) Retry() (Budget, bool) {
	if b.spent > (retryBurst-1)*retryShare {
		return b, false
	}
	return Budget{b.spent + retryShare}, true
}
