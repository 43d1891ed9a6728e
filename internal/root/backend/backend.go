package backend

import (
	"context"
	"io"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
)

// Backend answers the operations.
type Backend struct {
	*core.Core
	*people.Book
	*people.Log
	Node
	Ledger      *enroll.Ledger
	ObjectStore *objects.Store
	Clock       *pki.Clock // by which tokens are judged
}

// Node is the process of a root: its authority, who joins it and leaves it, and its files.
type Node interface {
	rest.Joining
	rest.Authority
	// CA is who trusts what, and until when.
	CA(ctx context.Context) (apiv1.CAView, error)
	// ClusterToken makes a token with which a cluster of that name joins.
	ClusterToken(ctx context.Context, name string, ttl time.Duration) (apiv1.TokenReply, error)
	RemoveCluster(ctx context.Context, name string, force bool) error
	RevokeCluster(ctx context.Context, name string) error
	// Backup writes an archive of this moment, see rest.Backups.
	Backup(ctx context.Context, w io.Writer, objects bool) error
	// Problems are what an administrator must know about it. known are the clusters of the model.
	Problems(known map[string]bool) []string
}

// Referrals are the operations that clusters serve, and a root does not: it does not own
// workers, nor what is on them.
var Referrals = rest.Referrals{
	rest.AllowGateway.ID:     rest.AtCluster("allowing a worker to be a gateway"),
	rest.DenyGateway.ID:      rest.AtCluster("denying a worker to be a gateway"),
	rest.RemoveWorker.ID:     rest.AtCluster("removing a worker"),
	rest.RevokeWorker.ID:     rest.AtCluster("revoking the key of a worker"),
	rest.DeleteVolume.ID:     rest.AtCluster("removing a volume"),
	rest.MoveVolume.ID:       rest.AtCluster("moving a volume"),
	rest.CancelVolumeMove.ID: rest.AtCluster("moving a volume"),
	rest.ForgetVolume.ID:     rest.AtCluster("giving a volume up"),
	rest.SnapshotVolume.ID:   rest.AtCluster("making a snapshot of a volume"),
	rest.RestoreVolume.ID:    rest.AtCluster("restoring a volume"),
	rest.ListSnapshots.ID:    rest.At("listing snapshots of volumes", "the cluster that has taken them"),
	rest.ListPlugins.ID:      rest.At("listing plugins", "their cluster"),
	rest.RevokePlugin.ID:     rest.AtCluster("revoking the keys of a plugin"),
	rest.GetUpgrade.ID:       rest.At("upgrading workers", "their cluster"),
	rest.StartUpgrade.ID:     rest.At("upgrading workers", "their cluster"),
	rest.ChangeUpgrade.ID:    rest.At("upgrading workers", "their cluster"),
	rest.DropLocalChange.ID:  rest.AtCluster("taking a local change back"),
	rest.Leave.ID:            rest.AtCluster("the leaving of a worker"),
	rest.GatewayACME.ID:      rest.At("sharing what gateways have of ACME servers", "their cluster"),
	rest.ImageSources.ID:     rest.At("copying images between workers", "their cluster"),
}
