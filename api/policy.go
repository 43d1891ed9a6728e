package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api/internal/words"
)

// Policy says by which rule requests are given to the replicas of a service: a
// name, and what that rule can be told. It is written as its name alone where
// there is nothing to tell. Two policies that are == route alike.
type Policy struct {
	// Name of the rule; "" is PolicyRoundRobin.
	Name string `json:"name"`
	// Alpha of proximity, 0 to 1: 0 spreads evenly, 1 is as near as Decay says.
	Alpha float64 `json:"alpha,omitempty"`
	// Beta of proximity, above 0: how steeply the share falls with the distance.
	// Without effect where Decay is DecayInverse.
	Beta float64 `json:"beta,omitempty"`
	// Decay of proximity: how the share falls with the distance l in milliseconds.
	Decay string `json:"decay,omitempty"`
	// LocalRTT is the distance that proximity takes for replicas on the own worker;
	// 0: a tenth less than the nearest other worker's.
	LocalRTT Duration `json:"localrtt,omitempty"`
	// Fallback of local: the name of the policy where the own worker has no replica.
	Fallback string `json:"fallback,omitempty"`
	// Ordinal of the replica that instance means.
	Ordinal int `json:"ordinal,omitempty"`
}

// Names of policies.
const (
	PolicyRoundRobin = "round-robin"
	PolicyRandom     = "random"
	PolicyClosest    = "closest"
	PolicyLocal      = "local"
	PolicyProximity  = "proximity"
	PolicyInstance   = "instance"
	PolicyWeighted   = "weighted"
	// By request only: by connection they give what each says of its shares.
	PolicyBilliard         = "billiard"
	PolicyLeastConnections = "least-connections"
	PolicyTwoChoices       = "p2c"
	PolicyLeastResponse    = "least-response"
	PolicyFastest          = "fastest"
)

// NearestDemand is the scheduler for which requests are counted where they enter.
const NearestDemand = "nearest-demand"

// PolicyNames are the policies that there are.
var PolicyNames = []string{
	PolicyRoundRobin, PolicyRandom, PolicyWeighted, PolicyBilliard, PolicyLeastConnections, PolicyTwoChoices,
	PolicyLeastResponse, PolicyFastest, PolicyClosest, PolicyLocal, PolicyProximity, PolicyInstance,
}

// Shapes of Policy.Decay.
const (
	DecayInverse     = "inverse"     // 1/(beta·l)
	DecayPower       = "power"       // l^-beta
	DecayExponential = "exponential" // e^(-beta·l)
)

// What proximity and local take where a descriptor is silent.
const (
	DefaultAlpha    = 0.8
	DefaultBeta     = 0.5
	DefaultDecay    = DecayExponential
	DefaultFallback = PolicyClosest
)

// MaxBeta bounds Policy.Beta. With it a replica that is a millisecond further
// away gets nothing that could be counted.
const MaxBeta = 1000

// policyFields are the fields beside the name that a policy has.
var policyFields = map[string][]string{
	PolicyProximity: {"alpha", "beta", "decay", "localrtt"},
	PolicyLocal:     {"fallback"},
	PolicyInstance:  {"ordinal"},
}

// PolicyFallbacks are the policies that local may name.
var PolicyFallbacks = []string{PolicyClosest, PolicyRoundRobin, PolicyRandom, PolicyProximity}

// NamedPolicy is the policy of that name with its defaults; "" is round robin. An
// error says which names there are. Instance means its first replica.
func NamedPolicy(name string) (Policy, error) {
	p := Policy{Name: name}.Filled()
	return p, p.Validate()
}

// Filled has the defaults of what p is silent about. A name alone is silent about
// all; where anything else is given, alpha and ordinal are what they are.
func (p Policy) Filled() Policy {
	if p == (Policy{Name: PolicyProximity}) {
		p.Alpha = DefaultAlpha
	}
	p.Name = cmp.Or(p.Name, PolicyRoundRobin)
	switch p.Name {
	case PolicyProximity:
		p.Beta = cmp.Or(p.Beta, DefaultBeta)
		p.Decay = cmp.Or(p.Decay, DefaultDecay)
	case PolicyLocal:
		p.Fallback = cmp.Or(p.Fallback, DefaultFallback)
	}
	return p
}

// Validate says what is wrong with a policy, whoever made it.
func (p Policy) Validate() error {
	if field, what, remedy := p.Problem(); what != "" {
		return fmt.Errorf("policy %s: %s %s: %s", cmp.Or(p.Name, PolicyRoundRobin), field, what, remedy)
	}
	return nil
}

// Problem is the first thing that is wrong: the field, what is wrong with it, and
// what to do.
func (p Policy) Problem() (field, what, remedy string) {
	if p.Name != "" && !slices.Contains(PolicyNames, p.Name) {
		return "name", words.Quote(p.Name) + " is not known here", "use " + words.Either(PolicyNames)
	}
	has := policyFields[p.Name]
	for _, name := range []string{PolicyProximity, PolicyLocal, PolicyInstance} {
		for _, field := range policyFields[name] {
			if p.given(field) && !slices.Contains(has, field) {
				return field, "means nothing to " + cmp.Or(p.Name, PolicyRoundRobin), "leave it out, or write name: " + name
			}
		}
	}
	switch {
	case !(p.Alpha >= 0 && p.Alpha <= 1): // also what is not a number
		return "alpha", fmt.Sprintf("%g is not between 0 and 1", p.Alpha), "write 0 (even) to 1 (near)"
	case p.Name == PolicyProximity && !(p.Beta > 0 && p.Beta <= MaxBeta):
		return "beta", fmt.Sprintf("%g is not above 0 and at most %d", p.Beta, MaxBeta), "write 0.5"
	case p.Name == PolicyProximity && !slices.Contains([]string{DecayInverse, DecayPower, DecayExponential}, p.Decay):
		return "decay", words.Quote(p.Decay) + " is not known here", "use inverse, power or exponential"
	case p.LocalRTT < 0:
		return "localrtt", p.LocalRTT.String() + " is negative", "write 3ms, or leave it out"
	case p.Name == PolicyLocal && !slices.Contains(PolicyFallbacks, p.Fallback):
		return "fallback", words.Quote(p.Fallback) + " cannot be one", "use " + words.Either(PolicyFallbacks)
	case p.Ordinal < 0 || p.Ordinal >= MaxReplicas:
		return "ordinal", strconv.Itoa(p.Ordinal) + " is no replica", "replicas are numbered from 0"
	}
	return "", "", ""
}

// given says whether a field beside the name is not zero.
func (p Policy) given(field string) bool {
	switch field {
	case "alpha":
		return p.Alpha != 0 // also what is not a number
	case "beta":
		return p.Beta != 0
	case "decay":
		return p.Decay != ""
	case "localrtt":
		return p.LocalRTT != 0
	case "fallback":
		return p.Fallback != ""
	}
	return p.Ordinal != 0
}

// Plain says whether the name alone means p.
func (p Policy) Plain() bool {
	return p == Policy{Name: p.Name}.Filled()
}

// String writes p for people: "proximity (alpha 0.8, beta 0.5, exponential)".
func (p Policy) String() string {
	name := cmp.Or(p.Name, PolicyRoundRobin)
	var said []string
	switch name {
	case PolicyProximity:
		said = append(said, fmt.Sprintf("alpha %g", p.Alpha))
		if p.Decay != DecayInverse {
			said = append(said, fmt.Sprintf("beta %g", p.Beta))
		}
		said = append(said, p.Decay)
		if p.LocalRTT > 0 {
			said = append(said, "localrtt "+p.LocalRTT.String())
		}
	case PolicyLocal:
		said = append(said, "else "+p.Fallback)
	case PolicyInstance:
		return fmt.Sprintf("instance %d", p.Ordinal)
	}
	if len(said) == 0 {
		return name
	}
	return name + " (" + strings.Join(said, ", ") + ")"
}

// IsZero says that nothing was chosen.
func (p Policy) IsZero() bool { return p == Policy{} }

// MarshalJSON writes the name alone where that means the same.
func (p Policy) MarshalJSON() ([]byte, error) {
	if p.Plain() || p == (Policy{Name: p.Name}) {
		return json.Marshal(p.Name)
	}
	type fields Policy
	all := struct {
		fields
		Alpha   *float64 `json:"alpha,omitempty"`
		Ordinal *int     `json:"ordinal,omitempty"`
	}{fields: fields(p)}
	switch p.Name { // whose zero means something
	case PolicyProximity:
		all.Alpha = &p.Alpha
	case PolicyInstance:
		all.Ordinal = &p.Ordinal
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads what MarshalJSON writes, and what older versions wrote: the
// name. What it cannot know is kept as it is; Validate judges it. Descriptors go
// through Parse.
func (p *Policy) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var name string
		if err := json.Unmarshal(b, &name); err != nil {
			return fmt.Errorf("policy: %w", err)
		}
		*p = Policy{}
		if name != "" {
			*p = Policy{Name: name}.Filled() // a name of a later version stays what it is
		}
		return nil
	}
	type fields Policy
	f := fields{}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&f); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	*p = Policy(f)
	return nil
}
