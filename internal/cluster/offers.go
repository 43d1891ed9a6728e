package cluster

import "github.com/verge-edge/verge/internal/rest"

// What a cluster serves of the HTTP interface.
var (
	_ rest.Backend       = backend{}
	_ rest.Applications  = backend{}
	_ rest.Services      = backend{}
	_ rest.Instances     = backend{}
	_ rest.Exec          = backend{}
	_ rest.Workers       = backend{}
	_ rest.Members       = backend{}
	_ rest.Routes        = backend{}
	_ rest.Plugins       = backend{}
	_ rest.Upgrades      = backend{}
	_ rest.Volumes       = backend{}
	_ rest.VolumeChanges = backend{}
	_ rest.Hooks         = backend{}
	_ rest.Objects       = backend{}
	_ rest.Users         = backend{}
	_ rest.Tokens        = backend{}
	_ rest.Audit         = backend{}
	_ rest.Metrics       = backend{}
	_ rest.Status        = backend{}
	_ rest.Backups       = backend{}
	_ rest.Sites         = backend{}
	_ rest.LocalEdits    = backend{}
	_ rest.Joining       = backend{}
	_ rest.Leaving       = backend{}
	_ rest.Gateways      = backend{}
	_ rest.Images        = backend{}
)

// referrals are the operations that the root serves, and a cluster does not. Of namespaces a
// cluster knows only which one an application that it has a share of belongs to.
var referrals = rest.Referrals{
	rest.ListClusters.ID:    rest.AtRoot("listing clusters"),
	rest.CordonCluster.ID:   rest.AtRoot("taking a cluster out of use"),
	rest.UncordonCluster.ID: rest.AtRoot("taking a cluster into use"),
	rest.GetClusterDrain.ID: rest.AtRoot("draining a cluster"),
	rest.RemoveCluster.ID:   rest.AtRoot("removing a cluster"),
	rest.RevokeCluster.ID:   rest.AtRoot("revoking the key of a cluster"),
	rest.CreateNamespace.ID: rest.AtRoot("changing a namespace"),
	rest.SetQuota.ID:        rest.AtRoot("changing a namespace"),
	rest.SetStanding.ID:     rest.AtRoot("changing a namespace"),
	rest.DeleteNamespace.ID: rest.AtRoot("changing a namespace"),
	rest.ListNamespaces.ID:  rest.AtRoot("listing namespaces"),
	rest.GetNamespace.ID:    rest.AtRoot("listing namespaces"),
	rest.SetSecret.ID:       rest.AtRoot("setting and removing secrets"),
	rest.DeleteSecret.ID:    rest.AtRoot("setting and removing secrets"),
	rest.ListSecrets.ID:     rest.AtRoot("listing secrets"),
	rest.PauseRollout.ID:    rest.AtRoot("pausing a rollout"),
	rest.ResumeRollout.ID:   rest.AtRoot("resuming a rollout"),
	rest.UndoRollout.ID:     rest.AtRoot("bringing an earlier revision back"),
	rest.ListRevisions.ID:   rest.AtRoot("reading the history of an application"),
	rest.GetRevision.ID:     rest.AtRoot("reading the history of an application"),
	rest.RotateCA.ID:        rest.AtRoot("rotating the authority"),
}
