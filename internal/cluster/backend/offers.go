package backend

import (
	"github.com/verge-edge/verge/internal/rest"
)

// What a cluster serves of the HTTP interface.
var (
	_ rest.Backend       = &Backend{}
	_ rest.Applications  = &Backend{}
	_ rest.Services      = &Backend{}
	_ rest.Instances     = &Backend{}
	_ rest.Exec          = &Backend{}
	_ rest.Workers       = &Backend{}
	_ rest.Members       = &Backend{}
	_ rest.Routes        = &Backend{}
	_ rest.Plugins       = &Backend{}
	_ rest.Upgrades      = &Backend{}
	_ rest.Volumes       = &Backend{}
	_ rest.VolumeChanges = &Backend{}
	_ rest.Hooks         = &Backend{}
	_ rest.Objects       = &Backend{}
	_ rest.Users         = &Backend{}
	_ rest.Tokens        = &Backend{}
	_ rest.Audit         = &Backend{}
	_ rest.Metrics       = &Backend{}
	_ rest.Status        = &Backend{}
	_ rest.Backups       = &Backend{}
	_ rest.Sites         = &Backend{}
	_ rest.LocalEdits    = &Backend{}
	_ rest.Joining       = &Backend{}
	_ rest.Leaving       = &Backend{}
	_ rest.Gateways      = &Backend{}
	_ rest.Images        = &Backend{}
)

// Referrals are the operations that the root serves, and a cluster does not. Of namespaces a
// cluster knows only which one an application that it has a share of belongs to.
var Referrals = rest.Referrals{
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
