package apiv1_test

import (
	"fmt"
	"testing"

	"github.com/verge-edge/verge/internal/apiv1"
)

// The message of an application names each service that lacks something, the first with its
// reason, and not more of them than a person reads.
func TestIncomplete(t *testing.T) {
	view := func(name, message string) apiv1.ServiceView { return apiv1.ServiceView{Name: name, Message: message} }
	many := []apiv1.ServiceView{view("ok", "")}
	for n := range 13 {
		many = append(many, view(fmt.Sprintf("s%d", n), apiv1.HowReady(0, 0, 1)+"; why"))
	}
	for want, list := range map[string][]apiv1.ServiceView{
		"":                      many[:1],
		"s0: 0 of 1 ready; why": many[:2],
		"s0: 0 of 1 ready; why; also s1: 0 of 1 ready, s2: 0 of 1 ready": many[:4],
		"s0: 0 of 1 ready; why; also s1: 0 of 1 ready, s2: 0 of 1 ready, s3: 0 of 1 ready, s4: 0 of 1 ready, s5: 0 of 1 ready, s6: 0 of 1 ready, s7: 0 of 1 ready, s8: 0 of 1 ready, s9: 0 of 1 ready, 3 more services": many,
	} {
		if got := apiv1.Incomplete(list); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	if got := apiv1.HowReady(3, 1, 3); got != "3 of 3 ready, 1 of them as applied" {
		t.Errorf("%q", got)
	}
}
