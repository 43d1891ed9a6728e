package api

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/verge-edge/verge/api/pattern"
)

// Rollout says how the instances of a service are brought to another program: in
// waves, which go on while what was updated does well.
type Rollout struct {
	// MaxSurge is how many instances more than promised may run meanwhile. Nil: 25%, or
	// none where MaxUnavailable is set or each instance has a named volume.
	MaxSurge *Amount `json:"max_surge,omitempty"`
	// MaxUnavailable is how many of those promised may be missing meanwhile. Nil: none,
	// or one where MaxSurge leaves no other way.
	MaxUnavailable *Amount `json:"max_unavailable,omitempty"`
	// MinReady is how long an instance has to be ready before the next is updated. Nil: 2s,
	// or 10s where there is an objective (SLO).
	MinReady *Duration `json:"min_ready,omitempty"`
	// ProgressDeadline is how long nothing may get any further. Nil: 10m.
	ProgressDeadline *Duration `json:"progress_deadline,omitempty"`
	// MaxErrors is how many of the requests to updated instances may fail. Nil: 1%.
	MaxErrors *Percent `json:"max_errors,omitempty"`
	// Canary are the steps in which the new program is tried on a share of the requests
	// before any instance is updated.
	Canary []CanaryStep `json:"canary,omitempty"`
	// OnFailure: "stop" (default) leaves everything as it is, "rollback" brings the
	// revision before back.
	OnFailure string `json:"on_failure,omitempty"`
}

// CanaryStep gives a share of the requests to the new program for a time.
type CanaryStep struct {
	Share Percent `json:"share"`
	// For is how long. Nil: 10m.
	For *Duration `json:"for,omitempty"`
	// Requests are how many the new program has to have answered meanwhile. Nil: 0.
	Requests *int `json:"requests,omitempty"`
}

// Lasts is For with its default.
func (s *CanaryStep) Lasts() Duration {
	if s.For == nil {
		return DefaultCanaryStep
	}
	return *s.For
}

// Least is Requests with its default.
func (s *CanaryStep) Least() int {
	if s.Requests == nil {
		return 0
	}
	return max(0, *s.Requests)
}

// IsZero says whether nothing is said of it.
func (r *Rollout) IsZero() bool { return reflect.ValueOf(*r).IsZero() }

// Defaults of a rollout.
const (
	DefaultCanaryStep       Duration = 600e9
	MaxCanarySteps                   = 10
	DefaultSurge            Amount   = -25
	DefaultMinReady         Duration = 2e9
	DefaultObserved         Duration = 10e9 // where there is an objective
	DefaultProgressDeadline Duration = 600e9
	DefaultMaxErrors        Percent  = 100
	// RollBack is the OnFailure that undoes.
	RollBack = "rollback"
)

// Amount of the instances of a service: a number of them, or, negative, a share in
// percent. It is written "2" or "25%".
type Amount int64

var amountRE = pattern.Lazy(`^(0|[1-9][0-9]{0,4})(%?)$`)

// ParseAmount parses "2" or "25%", at most MaxReplicas and 100%. The error says what to
// write instead.
func ParseAmount(s string) (Amount, error) {
	m := amountRE().FindStringSubmatch(s)
	if m == nil {
		return 0, &amountError{quote(s) + " is not a number of instances", "write a number (1) or a share (25%)"}
	}
	n, _ := strconv.Atoi(m[1]) // five digits
	switch {
	case m[2] == "" && n > MaxReplicas:
		return 0, &amountError{quote(s) + " is more than a service can have", "write at most " + strconv.Itoa(MaxReplicas)}
	case m[2] == "%" && n > 100:
		return 0, &amountError{quote(s) + " is more than all of them", "write at most 100%"}
	case m[2] == "%":
		return Amount(-n), nil
	}
	return Amount(n), nil
}

// Of is the amount of n instances; shares that are not whole are rounded up or down.
func (a Amount) Of(n int, up bool) int {
	if a >= 0 {
		return int(a)
	}
	part := int(-a) * n
	if up {
		part += 99
	}
	return part / 100
}

// String writes a as in a descriptor.
func (a Amount) String() string {
	if a < 0 {
		return strconv.FormatInt(-int64(a), 10) + "%"
	}
	return strconv.FormatInt(int64(a), 10)
}

// MarshalText writes a as in a descriptor.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (a *Amount) UnmarshalText(b []byte) (err error) { *a, err = ParseAmount(string(b)); return err }

// Surge is how many instances more than n may run during a rollout of s.
func (s *Service) Surge(n int) int {
	r := &s.Rollout
	switch {
	case s.Pins():
		return 0 // its data is with the others
	case r.MaxSurge != nil:
		return r.MaxSurge.Of(n, true)
	case len(r.Canary) > 0: // as many as the largest share needs, beside all that are promised
		most := r.Canary[len(r.Canary)-1].Share
		return max(DefaultSurge.Of(n, true), int((int64(most)*int64(n)+int64(AllPercent)-1)/int64(AllPercent)))
	case r.MaxUnavailable != nil && *r.MaxUnavailable != 0:
		return 0
	}
	return DefaultSurge.Of(n, true)
}

// Unavailable is how many of n instances may be missing during a rollout of s.
func (s *Service) Unavailable(n int) int {
	out := 0
	if u := s.Rollout.MaxUnavailable; u != nil {
		out = min(u.Of(n, false), n)
	}
	if out == 0 && s.Surge(n) == 0 {
		return 1 // else nothing could ever be updated
	}
	return out
}

// MinReady of a rollout of s.
func (s *Service) MinReady() Duration {
	switch d := s.Rollout.MinReady; {
	case d != nil:
		return *d
	case s.SLO != nil:
		return DefaultObserved
	}
	return DefaultMinReady
}

// ProgressDeadline of a rollout of s.
func (s *Service) ProgressDeadline() Duration {
	if d := s.Rollout.ProgressDeadline; d != nil {
		return *d
	}
	return DefaultProgressDeadline
}

// MaxErrors of a rollout of s.
func (s *Service) MaxErrors() Percent {
	if p := s.Rollout.MaxErrors; p != nil {
		return *p
	}
	return DefaultMaxErrors
}

func rolloutRows() []Verdict {
	in := func(field string) string { return "services.*.rollout" + field }
	return []Verdict{
		{Path: in(""), Note: "How instances are brought to another program. First some of the new revision start beside the others; when they are ready, instances are updated, as many at a time, and at the end those that were too many go. What fails stops the rollout: verge rollout status says why."},
		{Path: in(".max_surge"), Default: "25%, rounded up; 0 where max_unavailable is given or instances have named volumes",
			Note: "How many instances more than promised run meanwhile, as a number or a share. They need room, and are 100 in a cluster at most."},
		{Path: in(".max_unavailable"), Default: "0; 1 where max_surge is 0",
			Note: "How many of those promised may be missing meanwhile, as a number or a share, rounded down. For clusters without room for a surge, and for programs of which no more than so many may run."},
		{Path: in(".min_ready"), Default: "as " + DefaultMinReady.String() + " would be; as " + DefaultObserved.String() + " with slo", Max: 3600e9,
			Note: "How long what was updated has to be ready before the next are. With slo, what takes longer for a request than that, and longer than those of the revision before, stops the rollout, and after 10s of that it has failed."},
		{Path: in(".progress_deadline"), Default: "as " + DefaultProgressDeadline.String() + " would be", Min: 1e9, Max: 24 * 3600e9,
			Note: "How long nothing may get any further before the rollout has failed. What was paused does not count."},
		{Path: in(".max_errors"), Default: "as " + DefaultMaxErrors.String() + " would be",
			Note: "How many of the requests over HTTP to updated instances may fail: answers 5xx (but 501 and 505) and connections that break before one. The rollout has failed when it is certain that more do, and that more do than of those to the instances of the revision before: 5 at least, and the 99% intervals (Wilson) of the two shares do not touch. 100%: nobody looks."},
		{Path: in(".canary"), Max: MaxCanarySteps,
			Note: "Steps, of which each gives a larger share of the requests to the new revision, before anything that was promised is touched. It runs beside the others on as many instances as its share is of those promised, which max_surge must allow, so that none of them gets more than it would when all are updated; what fails stops it, and all requests go back to the others at once. Of the requests that would come to a cluster each is drawn by itself: a client meets both revisions. Clusters come one after the other. Of services that are not asked over HTTP it is a share of the connections, and nothing is known of how they are answered. Left out: there are no such steps."},
		{Path: in(".canary[].share"), Required: true, Note: "The share of the requests, more than that of the step before."},
		{Path: in(".canary[].for"), Default: "as " + DefaultCanaryStep.String() + " would be", Min: 1e9, Max: 7 * 24 * 3600e9,
			Note: "How long the step lasts at least, once its instances are ready for min_ready."},
		{Path: in(".canary[].requests"), Default: "as 0 would be", Max: 1e9,
			Note: "How many requests over HTTP the new revision must have answered in the step as well. Where fewer come, progress_deadline counts from the end of for."},
		{Path: in(".on_failure"), Default: "as stop would be", Values: values("stop "+RollBack, "", ""),
			Note: "stop leaves things as they are, until something else is applied or verge rollout undo or resume says so. rollback applies the last revision in which the service held."},
	}
}

// rollout checks what the fields of one cannot say alone.
func (v *validator) rollout(path string, s *Service) {
	r := s.Rollout
	zero := func(a *Amount) bool { return a != nil && *a == 0 }
	if zero(r.MaxSurge) && zero(r.MaxUnavailable) {
		v.complain(path+".max_unavailable", "is 0, and so is max_surge: nothing could ever be updated", "write 1 for one of them")
	}
	if s.Pins() && r.MaxSurge != nil && *r.MaxSurge != 0 {
		v.complain(path+".max_surge", "is above 0, but each instance has a named volume, which is kept for it alone", "write 0, and say how many may be missing in max_unavailable")
	}
	if p := r.ProgressDeadline; p != nil && *p <= s.MinReady() {
		v.complain(path+".progress_deadline", p.String()+" is not more than the "+s.MinReady().String()+" of min_ready", "raise it, or lower min_ready")
	}
	v.canary(path, s)
}

// canary checks the steps of a rollout.
func (v *validator) canary(path string, s *Service) {
	r, last := s.Rollout, Percent(0)
	for i, st := range r.Canary {
		at := fmt.Sprintf("%s.canary[%d].share", path, i)
		switch {
		case st.Share == 0:
			v.complain(at, "is 0%: nothing would be tried", "write a share above 0%, such as 5%")
		case st.Share <= last:
			v.complain(at, st.Share.String()+" is not more than the "+last.String()+" of the step before", "write the steps in ascending order")
		}
		last = st.Share
	}
	switch a := r.MaxSurge; {
	case len(r.Canary) == 0:
	case s.Pins():
		v.complain(path+".canary", "needs instances beside those promised, and each of these has a named volume, which is kept for it alone", "leave it out, and use max_unavailable")
	case len(s.Ports) == 0:
		v.complain(path+".canary", "shares requests, and the service has no ports", "leave it out, or give it ports")
	case a != nil && *a == 0:
		v.complain(path+".max_surge", "is 0, and a canary runs beside the others", "leave it out")
	case a != nil && *a < 0 && Percent(-*a)*100 < last:
		v.complain(path+".max_surge", a.String()+" is less than the "+last.String()+" of the last step of canary, whose instances run beside the others", "write at least "+last.String()+", or leave it out")
	}
}
