package descriptor

import (
	"testing"
)

// What is not said leaves a way to update, and never one below what is promised unless
// there is no other.
func TestRolloutDefaults(t *testing.T) {
	for inside, want := range map[string][2]int{
		"":                                {1, 0},
		"rollout: {max_unavailable: 1}":   {0, 1},
		"rollout: {max_unavailable: 25%}": {0, 1},
		"rollout: {max_surge: 0}":         {0, 1},
		"rollout: {max_surge: 100%}":      {4, 0},
		"rollout: {max_surge: 1, max_unavailable: 50%}": {1, 2},
		"volumes: [{path: d, name: d}]":                 {0, 1},
		"rollout: {max_unavailable: 10%}":               {0, 1}, // rounded down that is none, and nothing could be updated
	} {
		app, _, err := Parse("f", []byte(source(inside)))
		if err != nil {
			t.Errorf("%s: %v", inside, err)
			continue
		}
		s := app.Services["web"]
		if got := [2]int{s.Surge(4), s.Unavailable(4)}; got != want {
			t.Errorf("%s: %v, want %v", inside, got, want)
		}
	}
}

// Proofs of the fields of a rollout.
func init() {
	in := func(field string) string { return "services.*.rollout" + field }
	proofs[in("")] = proof{"rollout: {max_surge: 1}", "rollout: {surge: 1}", "is not a field", inCluster + "TestARolloutKeepsWhatIsPromised"}
	proofs[in(".max_surge")] = proof{"rollout: {max_surge: 50%}", "rollout: {max_surge: 1}\nvolumes: [{path: a, name: b}]", "each instance has a named volume", inCluster + "TestARolloutKeepsWhatIsPromised"}
	proofs[in(".max_errors")] = proof{"rollout: {max_errors: 0.5%}", "rollout: {max_errors: 5}", "is not a share", inCluster + "TestErrorsStopARollout"}
	ports := "\nports: [{name: http}]"
	proofs[in(".canary")] = proof{"rollout: {canary: [{share: 5%}]}" + ports, "rollout: {canary: [{share: 5%}]}", "the service has no ports", inCluster + "TestACanaryGoesStepByStep"}
	proofs[in(".canary[].share")] = proof{"rollout: {canary: [{share: 5%}, {share: 10%}]}" + ports, "rollout: {canary: [{share: 5%}, {share: 4%}]}" + ports, "is not more than the 5% of the step before", "internal/policy/route.TestAShareIsKept"}
	proofs[in(".canary[].for")] = proof{"rollout: {canary: [{share: 5%, for: 1h}]}" + ports, "rollout: {canary: [{share: 5%, for: 1ms}]}" + ports, "is less than 1s", "internal/policy/rollout.TestATrialKeepsWhatIsPromised"}
	proofs[in(".canary[].requests")] = proof{"rollout: {canary: [{share: 5%, requests: 100}]}" + ports, "rollout: {canary: [{share: 5%, requests: -1}]}" + ports, "is less than 0", "internal/policy/rollout.TestAStepWaitsForRequests"}
	proofs[in(".max_unavailable")] = proof{"rollout: {max_unavailable: 1}", "rollout: {max_unavailable: 0, max_surge: 0}", "nothing could ever be updated", inCluster + "TestARolloutWithoutRoom"}
	proofs[in(".min_ready")] = proof{"rollout: {min_ready: 0s}", "rollout: {min_ready: 2h}", "is more than 1h", "internal/policy/rollout.TestGates"}
	proofs[in(".progress_deadline")] = proof{"rollout: {progress_deadline: 1m}", "rollout: {progress_deadline: 2s}", "is not more than the 2s of min_ready", inCluster + "TestARolloutThatHangsFailsAtItsDeadline"}
	proofs[in(".on_failure")] = proof{"rollout: {on_failure: rollback}", "rollout: {on_failure: retry}", "is not a value of on_failure", atRoot + "TestARolloutThatFailedIsUndone"}
}
