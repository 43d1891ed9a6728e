package plugin

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Version of the contract.
const Version = 1

// Bounds of the contract.
const (
	MaxQuestion   = 4 << 20 // bytes
	MaxAnswer     = 1 << 20 // bytes
	MaxCandidates = 1000    // of one question
	MaxInstances  = 1000    // of one question
	maxReason     = 200     // bytes
)

// Amounts of resources by name: cpu in thousandths of a core, memory and disk in
// bytes, others in units of their own.
type Amounts map[string]int64

// Question is what a plugin is asked: about one service, or, if its operator
// said that it decides jointly, about all that wait.
type Question struct {
	V       int    `json:"v"`
	Cluster string `json:"cluster"`
	// DeadlineMs is how long the cluster waits for the answer, in milliseconds.
	DeadlineMs int64 `json:"deadline_ms"`
	// Plan: nobody does what is answered, somebody wants to know what would be done.
	Plan bool `json:"plan,omitempty"`
	// Service that is asked about; nil where Services has them.
	Service *Service `json:"service,omitempty"`
	// Services of a joint question.
	Services []Service `json:"services,omitempty"`
	// Candidates are the workers that pass every filter of the service; of a joint
	// question those of any service. Omitted is how many more there are.
	Candidates []Candidate `json:"candidates"`
	Omitted    int         `json:"omitted,omitempty"`
}

// Service is one for whose instances a worker is sought.
type Service struct {
	Name      string `json:"name"` // application.service
	Namespace string `json:"namespace,omitempty"`
	// Instances that wait for a worker.
	Instances []string `json:"instances"`
	// Placed is how many instances of the service have a worker.
	Placed int `json:"placed"`
	// Demand of one instance, reserved on its worker.
	Demand  Amounts `json:"demand"`
	Runtime string  `json:"runtime"`
	// Spread is "soft" where replicas are better on different workers.
	Spread string `json:"spread,omitempty"`
	// Candidates of this service by id, in a joint question.
	Candidates []string `json:"candidates,omitempty"`
}

// Candidate is a worker that may be chosen.
type Candidate struct {
	ID       string            `json:"id"`
	Arch     string            `json:"arch,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Location []float64         `json:"location,omitempty"` // latitude, longitude
	Capacity Amounts           `json:"capacity"`
	Free     Amounts           `json:"free"`
	// Same is how many instances of the services asked about it has, by name.
	Same map[string]int `json:"same,omitempty"`
}

// Verdict is the answer for one service.
type Verdict struct {
	// Ranking of candidates, the highest score is the best. A candidate that is
	// neither ranked nor rejected is not taken.
	Ranking []Ranked `json:"ranking,omitempty"`
	// Rejected candidates, with the reason in words.
	Rejected map[string]string `json:"rejected,omitempty"`
	// Placements say which instance is to be on which worker; they count before the
	// ranking.
	Placements map[string]string `json:"placements,omitempty"`
	// Reason why instances get no worker, in words.
	Reason string `json:"reason,omitempty"`
}

// Ranked is a candidate with its score.
type Ranked struct {
	ID    string   `json:"id"`
	Score *float64 `json:"score"`
}

// Answer of a plugin: a Verdict, or one for each service of a joint question.
type Answer struct {
	V int `json:"v,omitempty"` // 0 is 1
	Verdict
	Services map[string]*Verdict `json:"services,omitempty"`
	// Error is why it refuses to answer, where there is no status to say so.
	Error string `json:"error,omitempty"`
}

// Classes of errors.
const (
	Late        = "late"        // no answer in time
	Unreachable = "unreachable" // no connection, or it was lost
	Refused     = "refused"     // answered that it will not
	TooLarge    = "too-large"   // question or answer
	Invalid     = "invalid"     // the answer breaks the contract
)

// Classes are all that an Error can have.
var Classes = []string{Late, Unreachable, Refused, TooLarge, Invalid}

// Error is why there is no answer that can be used.
type Error struct {
	Class, Text string
	// Unasked: the plugin has not seen the question.
	Unasked bool
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

func errorf(class, format string, args ...any) *Error {
	return &Error{Class: class, Text: fmt.Sprintf(format, args...)}
}

// Encode writes a question, with fewer candidates (those at the end go first)
// where it would be larger than most bytes.
func Encode(q Question, most int) ([]byte, error) {
	for {
		data, err := json.Marshal(q)
		if err != nil {
			return nil, &Error{Invalid, fmt.Sprintf("encoding the question: %v", err), true}
		}
		if len(data) <= most {
			return data, nil
		}
		n := len(q.Candidates) * 3 / 4
		if n == 0 || len(q.Services) > 0 { // its services name their candidates
			return nil, &Error{TooLarge, fmt.Sprintf("the question has %d bytes, at most %d are sent", len(data), most),
				true}
		}
		q.Omitted += len(q.Candidates) - n
		q.Candidates = q.Candidates[:n]
	}
}

// Decode reads the answer to q: a verdict for each service that it answers for.
func Decode(q Question, data []byte) (map[string]Verdict, error) {
	if len(data) > MaxAnswer {
		return nil, errorf(TooLarge, "the answer has more than %d bytes", MaxAnswer)
	}
	var a Answer
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, errorf(Invalid, "the answer is not what the contract says: %v", cut(err.Error()))
	}
	return Check(q, a)
}

// Check returns the verdicts of an answer by service, cleaned of what is only
// shown, or says what in it breaks the contract.
func Check(q Question, a Answer) (map[string]Verdict, error) {
	if a.V != 0 && a.V != Version {
		return nil, errorf(Invalid, "the answer is of version %d of the contract, this is version %d", a.V, Version)
	}
	if a.Error != "" {
		return nil, errorf(Refused, "it refused: %s", cut(a.Error))
	}
	all := map[string]bool{}
	for _, c := range q.Candidates {
		all[c.ID] = true
	}
	out := map[string]Verdict{}
	if q.Service != nil {
		v := a.Verdict
		if own := a.Services[q.Service.Name]; own != nil {
			v = *own
		}
		if err := v.check(q.Service, all); err != nil {
			return nil, err
		}
		out[q.Service.Name] = v
		return out, nil
	}
	asked := map[string]*Service{}
	for n := range q.Services {
		asked[q.Services[n].Name] = &q.Services[n]
	}
	for name, v := range a.Services {
		s := asked[name]
		if s == nil {
			return nil, errorf(Invalid, "it answers for service %s, which it was not asked about", quote(name))
		}
		if v == nil {
			continue
		}
		own := map[string]bool{}
		for _, id := range s.Candidates {
			own[id] = all[id]
		}
		if err := v.check(s, own); err != nil {
			return nil, err
		}
		out[name] = *v
	}
	if len(out) == 0 {
		return nil, errorf(Invalid, "it answers for none of the %d services", len(q.Services))
	}
	return out, nil
}

func (v *Verdict) check(s *Service, candidates map[string]bool) error {
	if len(v.Ranking)+len(v.Rejected)+len(v.Placements) == 0 && v.Reason == "" {
		return errorf(Invalid, "it neither ranks nor rejects a worker for %s", s.Name)
	}
	seen := map[string]bool{}
	for _, r := range v.Ranking {
		switch {
		case !candidates[r.ID]:
			return errorf(Invalid, "it ranks %s, which is no candidate", quote(r.ID))
		case seen[r.ID]:
			return errorf(Invalid, "it ranks %s twice", quote(r.ID))
		case r.Score == nil || math.IsNaN(*r.Score) || math.IsInf(*r.Score, 0):
			return errorf(Invalid, "the score of %s is no number", quote(r.ID))
		}
		seen[r.ID] = true
	}
	clean := make(map[string]string, len(v.Rejected))
	for id, why := range v.Rejected {
		switch {
		case !candidates[id]:
			return errorf(Invalid, "it rejects %s, which is no candidate", quote(id))
		case seen[id]:
			return errorf(Invalid, "it ranks and rejects %s", quote(id))
		}
		clean[id] = cut(why)
	}
	waits := make(map[string]bool, len(s.Instances))
	for _, id := range s.Instances {
		waits[id] = true
	}
	for id, worker := range v.Placements {
		_, rejected := v.Rejected[worker]
		switch {
		case !waits[id]:
			return errorf(Invalid, "it places %s, which it was not asked about", quote(id))
		case !candidates[worker]:
			return errorf(Invalid, "it places %s on %s, which is no candidate", id, quote(worker))
		case rejected:
			return errorf(Invalid, "it places %s on %s, which it rejects", id, quote(worker))
		}
	}
	v.Rejected, v.Reason = clean, cut(v.Reason)
	return nil
}

// quote writes a name of which nobody knows what it is.
func quote(s string) string { return fmt.Sprintf("%.80q", s) }

// cut makes words of a stranger fit to be shown: printable, on one line, short.
func cut(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r) || r == utf8.RuneError:
			return -1
		}
		return r
	}, s[:min(len(s), 4*maxReason)])
	if len(s) <= maxReason {
		return s
	}
	n := maxReason
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
