package route

import (
	"testing"

	"github.com/verge-edge/verge/api"
)

// A policy that descriptors may name has a rule, and is not taken for one without preferences.
func TestEveryPolicyHasARule(t *testing.T) {
	t.Parallel()
	for _, name := range api.PolicyNames {
		if _, known := namedRule(api.Policy{Name: name}); !known {
			t.Errorf("%s is in api.PolicyNames and has no rule: see namedRule", name)
		}
	}
	if _, known := namedRule(api.Policy{Name: "of a later version"}); known {
		t.Error("any name has a rule")
	}
}
