package cluster

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Over its link a worker renews for itself only, and only with the key that it is
// registered with.
func TestAWorkerRenewsForItselfOnly(t *testing.T) {
	ctx := t.Context()
	c := clustertest.NewCore(t, bustest.NewMemStore())
	clustertest.AddWorkers(t, c, "w1", "w2")
	b := &Cluster{Core: c, clock: pki.OpenClock(t.TempDir())}
	ask := func(subject, name, key string) error {
		_, err := b.renewWorker(ctx, subject,
			rpc.RenewRequest{V: wire.Version, Name: name, PublicKey: []byte(key), NatsKey: "U" + key})
		return err
	}
	clustertest.WantCode(t, "for another", ask("w1", "w2", "w2"), "another-name")
	clustertest.WantCode(t, "with another's key", ask("w1", "w1", "w2"), rpc.CodeUnknown)
	clustertest.WantCode(t, "one that is not registered", ask("w9", "w9", "w9"), rpc.CodeUnknown)
	if _, err := workers.RevokeWorker(ctx, c, "w2", time.Now()); err != nil {
		t.Fatal(err)
	}
	clustertest.WantCode(t, "with a revoked key", ask("w2", "w2", "w2"), rpc.CodeRevoked)
	clustertest.WantCode(t, "with the revoked key of another", ask("w1", "w1", "w2"), rpc.CodeRevoked)
	if _, err := workers.RemoveWorker(ctx, c, "w1", true, time.Now()); err != nil {
		t.Fatal(err)
	}
	clustertest.WantCode(t, "one that was removed", ask("w1", "w1", "w1"), rpc.CodeRemoved)
	// Another node cannot join with a key that does not count, whatever its name.
	clustertest.AddWorkers(t, c, "w3")
	c.M.Workers["w3"].Expires = time.Now().Add(-pki.RenewGrace - time.Hour)
	clustertest.WantCode(t, "one that was away for too long", ask("w3", "w3", "w3"), rpc.CodeTooLate)
}
