package api

import (
	"reflect"
	"strconv"

	"github.com/verge-edge/verge/api/internal/words"
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
		return 0, &ValueError{words.Quote(s) + " is not a number of instances", "write a number (1) or a share (25%)"}
	}
	n, _ := strconv.Atoi(m[1]) // five digits
	switch {
	case m[2] == "" && n > MaxReplicas:
		return 0, &ValueError{words.Quote(s) + " is more than a service can have",
			"write at most " + strconv.Itoa(MaxReplicas)}
	case m[2] == "%" && n > 100:
		return 0, &ValueError{words.Quote(s) + " is more than all of them", "write at most 100%"}
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
