package root

import "github.com/verge-edge/verge/internal/rest"

// What a root serves of the HTTP interface.
var (
	_ rest.Backend      = backend{}
	_ rest.Applications = backend{}
	_ rest.Services     = backend{}
	_ rest.Rollouts     = backend{}
	_ rest.Instances    = backend{}
	_ rest.Exec         = backend{}
	_ rest.Clusters     = backend{}
	_ rest.Workers      = backend{}
	_ rest.Routes       = backend{}
	_ rest.Volumes      = backend{}
	_ rest.Namespaces   = backend{}
	_ rest.Secrets      = backend{}
	_ rest.Hooks        = backend{}
	_ rest.Objects      = backend{}
	_ rest.Users        = backend{}
	_ rest.Tokens       = backend{}
	_ rest.Audit        = backend{}
	_ rest.Metrics      = backend{}
	_ rest.Status       = backend{}
	_ rest.Authority    = backend{}
	_ rest.Backups      = backend{}
	_ rest.Sites        = backend{}
	_ rest.Joining      = backend{}
)

// referrals are the operations that clusters serve, and a root does not: it does not own
// workers, nor what is on them.
var referrals = rest.Referrals{
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
