package cli

import (
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// Who may be a gateway with TLS is said, and what is wrong where somebody may not.
func TestGatewayGrant(t *testing.T) {
	fake := world()
	for i := range 2 {
		fake.WorkerList[i].Gateway, fake.WorkerList[i].Published = ":8480", &wire.GatewayInfo{TLS: ":8443"}
	}
	fake.WorkerList[1].GatewayGrant = &wire.GatewayGrant{Allowed: true, By: "admin/ann", At: ago(300e9)}
	f := newFixture(t, fake)
	for _, step := range []struct {
		name string
		args []string
	}{
		{"gateway-get-workers", []string{"get", "workers"}},
		{"gateway-describe-refused", []string{"describe", "worker/w1"}},
		{"gateway-describe-allowed", []string{"describe", "worker/w2"}},
		{"gateway-allow", []string{"worker", "allow-gateway", "w1"}},
		{"gateway-deny", []string{"worker", "deny-gateway", "worker/edge/w2"}},
		{"gateway-missing", []string{"worker", "allow-gateway", "w9"}},
		{"gateway-no-name", []string{"worker", "allow-gateway"}},
	} {
		f.golden(step.name, f.run(step.args...), step.args...)
	}
	if fake.WorkerList[0].GatewayGrant == nil || fake.WorkerList[1].GatewayGrant != nil {
		t.Errorf("the grants are %+v, %+v", fake.WorkerList[0].GatewayGrant, fake.WorkerList[1].GatewayGrant)
	}
}
