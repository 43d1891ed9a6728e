package api

import (
	"regexp"
	"strconv"
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
	// OnFailure: "stop" (default) leaves everything as it is, "rollback" brings the
	// revision before back.
	OnFailure string `json:"on_failure,omitempty"`
}

// Defaults of a rollout.
const (
	DefaultSurge            Amount   = -25
	DefaultMinReady         Duration = 2e9
	DefaultObserved         Duration = 10e9 // where there is an objective
	DefaultProgressDeadline Duration = 600e9
	// RollBack is the OnFailure that undoes.
	RollBack = "rollback"
)

// Amount of the instances of a service: a number of them, or, negative, a share in
// percent. It is written "2" or "25%".
type Amount int64

var amountRE = regexp.MustCompile(`^(0|[1-9][0-9]{0,4})(%?)$`)

// ParseAmount parses "2" or "25%", at most MaxReplicas and 100%. The error says what to
// write instead.
func ParseAmount(s string) (Amount, error) {
	m := amountRE.FindStringSubmatch(s)
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
		{Path: in(".on_failure"), Default: "as stop would be", Values: values("stop "+RollBack, "", ""),
			Note: "stop leaves things as they are, until something else is applied or verge rollout undo or resume says so. rollback applies the revision before."},
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
}
