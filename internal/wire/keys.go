package wire

// Prefixes of the keys of an exchanged desired state; a tier's own store has others.
const (
	DesiredShare      = "share."   // + application.service: Share, from a root
	DesiredOrder      = "order."   // + instance: Order, from a cluster
	DesiredRoute      = "route."   // + application.service: Route
	DesiredSecret     = "secret."  // + namespace.name: SealedSecret
	DesiredRevoked    = "revoked." // + who revoked it, and the hash of a key: Revocation
	DesiredFarRevoked = "fargone." // + the same, passed on by a cluster from its root
	DesiredPublish    = "publish." // + namespace: Publish, from a root
	DesiredLease      = "lease."   // ClusterLease, from a root
	DesiredNetwork    = "network." // Network, from a cluster
)

// Parts of the keys of revocations.
const (
	RevokedByRoot   = "="        // who revoked it; no cluster has that name
	ReportedRevoked = "revoked/" // prefix of what a cluster reports: + hash of the key: Revocation
)
