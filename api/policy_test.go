package api

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestPolicyAsJSON(t *testing.T) {
	for text, want := range map[string]Policy{
		`""`:            {},
		`"round-robin"`: {Name: PolicyRoundRobin},
		`"local"`:       {Name: PolicyLocal, Fallback: PolicyClosest},
		`"proximity"`:   {Name: PolicyProximity, Alpha: 0.8, Beta: 0.5, Decay: DecayExponential},
		`"of-tomorrow"`: {Name: "of-tomorrow"},
		`{"name":"proximity","beta":0.5,"decay":"power","localrtt":"3ms","alpha":0}`: {Name: PolicyProximity, Beta: 0.5, Decay: DecayPower, LocalRTT: 3e6},
		`{"name":"instance","ordinal":2}`:                                            {Name: PolicyInstance, Ordinal: 2},
		`{"name":"local","fallback":"random"}`:                                       {Name: PolicyLocal, Fallback: PolicyRandom},
	} {
		var p Policy
		if err := json.Unmarshal([]byte(text), &p); err != nil || p != want {
			t.Errorf("%s: %+v %v, want %+v", text, p, err, want)
		}
		if b, err := json.Marshal(p); err != nil || string(b) != text {
			t.Errorf("%+v: %s %v, want %s", p, b, err, text)
		}
	}
	if err := json.Unmarshal([]byte(`5`), new(Policy)); err == nil {
		t.Error("a number is a policy")
	}
}

func TestPolicyValidate(t *testing.T) {
	for says, p := range map[string]Policy{
		"is not known here":              {Name: "fair"},
		"alpha means nothing to closest": {Name: PolicyClosest, Alpha: 1},
		"alpha 2 is not":                 {Name: PolicyProximity, Alpha: 2, Beta: 1, Decay: DecayPower},
		"alpha NaN":                      {Name: PolicyProximity, Alpha: math.NaN(), Beta: 1, Decay: DecayPower},
		"beta -1":                        {Name: PolicyProximity, Beta: -1, Decay: DecayPower},
		"beta +Inf":                      {Name: PolicyProximity, Beta: math.Inf(1), Decay: DecayPower},
		`decay "linear"`:                 {Name: PolicyProximity, Beta: 1, Decay: "linear"},
		"localrtt -1ns":                  {Name: PolicyProximity, Beta: 1, Decay: DecayPower, LocalRTT: -1},
		`fallback "local"`:               {Name: PolicyLocal, Fallback: PolicyLocal},
		"ordinal -1":                     {Name: PolicyInstance, Ordinal: -1},
		"ordinal means nothing to ":      {Ordinal: 1},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", p, err, says)
		}
	}
	for _, name := range []string{"", PolicyRoundRobin, PolicyRandom, PolicyClosest, PolicyLocal, PolicyProximity, PolicyInstance, PolicyWeighted} {
		if _, err := NamedPolicy(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
