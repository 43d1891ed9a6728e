package client

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
)

// Clusters are the clusters of a root.
type Clusters struct{ group }

// List is all that may be seen.
func (c Clusters) List(ctx context.Context) ([]Cluster, error) {
	return callList(ctx, c.group, rest.ListClusters, rest.None{})
}

// Cordon takes a cluster out of use. Doing it again changes what is new in the request.
func (c Clusters) Cordon(ctx context.Context, cluster string, q CordonRequest) (Cordon, error) {
	return call(ctx, c.group, rest.CordonCluster, rest.CordonClusterIn{Cluster: cluster, Body: q})
}

// Uncordon takes it into use again, and ends its drain.
func (c Clusters) Uncordon(ctx context.Context, cluster string) error {
	return callNone(ctx, c.group, rest.UncordonCluster, rest.ClusterIn{Cluster: cluster})
}

// Drain says what is still in a cluster that is drained.
func (c Clusters) Drain(ctx context.Context, cluster string) (Drain, error) {
	return call(ctx, c.group, rest.GetClusterDrain, rest.ClusterIn{Cluster: cluster})
}

// Remove takes a cluster out. Without force it is refused where something would be lost.
func (c Clusters) Remove(ctx context.Context, cluster string, force bool) error {
	return callNone(ctx, c.group, rest.RemoveCluster, rest.RemoveClusterIn{Cluster: cluster, Force: force})
}

// Revoke revokes the key of a cluster; it stays, and whoever joins again under its name is it.
func (c Clusters) Revoke(ctx context.Context, cluster string) error {
	return callNone(ctx, c.group, rest.RevokeCluster, rest.ClusterIn{Cluster: cluster})
}

// Workers are the machines of clusters.
type Workers struct{ group }

// List is all that may be seen.
func (w Workers) List(ctx context.Context) ([]Worker, error) {
	return callList(ctx, w.group, rest.ListWorkers, rest.None{})
}

// Entries are the addresses at which services are reached on a worker.
func (w Workers) Entries(ctx context.Context, cluster, worker string) ([]Entry, error) {
	return callList(ctx, w.group, rest.ListEntries, rest.WorkerIn{Cluster: cluster, Worker: worker})
}

// Cordon takes a worker out of use. Doing it again changes what is new in the request.
func (w Workers) Cordon(ctx context.Context, cluster, worker string, q CordonRequest) (Cordon, error) {
	return call(ctx, w.group, rest.CordonWorker, rest.CordonWorkerIn{Cluster: cluster, Worker: worker, Body: q})
}

// Uncordon takes it into use again, and ends its drain.
func (w Workers) Uncordon(ctx context.Context, cluster, worker string) error {
	return callNone(ctx, w.group, rest.UncordonWorker, rest.WorkerIn{Cluster: cluster, Worker: worker})
}

// Drain says what is still on a worker that is drained.
func (w Workers) Drain(ctx context.Context, cluster, worker string) (Drain, error) {
	return call(ctx, w.group, rest.GetWorkerDrain, rest.WorkerIn{Cluster: cluster, Worker: worker})
}

// Remove takes a worker out. Without force it is refused where something would be lost.
func (w Workers) Remove(ctx context.Context, cluster, worker string, force bool) error {
	return callNone(ctx, w.group, rest.RemoveWorker, rest.RemoveWorkerIn{Cluster: cluster, Worker: worker, Force: force})
}

// Revoke revokes the key of a worker; it stays, and whoever joins again under its name is it.
func (w Workers) Revoke(ctx context.Context, cluster, worker string) error {
	return callNone(ctx, w.group, rest.RevokeWorker, rest.WorkerIn{Cluster: cluster, Worker: worker})
}

// AllowGateway lets a worker be a gateway with TLS, which is given the certificates of hosts
// and their keys.
func (w Workers) AllowGateway(ctx context.Context, cluster, worker string) (GatewayGrant, error) {
	return call(ctx, w.group, rest.AllowGateway, rest.WorkerIn{Cluster: cluster, Worker: worker})
}

// DenyGateway takes that back.
func (w Workers) DenyGateway(ctx context.Context, cluster, worker string) error {
	return callNone(ctx, w.group, rest.DenyGateway, rest.WorkerIn{Cluster: cluster, Worker: worker})
}

// Route is how a worker routes a service at this moment.
func (w Workers) Route(ctx context.Context, cluster, worker, app, service string) (RouteReport, error) {
	return call(ctx, w.group, rest.GetRoute, rest.RouteIn{Cluster: cluster, Worker: worker, App: app, Service: service})
}

// Net is how a worker reaches those others to which it has routes.
func (w Workers) Net(ctx context.Context, cluster, worker string) (NetReport, error) {
	return call(ctx, w.group, rest.GetNet, rest.WorkerIn{Cluster: cluster, Worker: worker})
}

// Plugins are the scheduler plugins of a cluster.
type Plugins struct{ group }

// List is all, by name.
func (p Plugins) List(ctx context.Context) ([]Plugin, error) {
	return callList(ctx, p.group, rest.ListPlugins, rest.None{})
}

// Revoke revokes the keys of a plugin; whoever joins again under its name is it.
func (p Plugins) Revoke(ctx context.Context, plugin string) error {
	return callNone(ctx, p.group, rest.RevokePlugin, rest.PluginIn{Plugin: plugin})
}

// Upgrades change the program of a cluster's workers, in waves.
type Upgrades struct{ group }

// Get says how far the last one is.
func (u Upgrades) Get(ctx context.Context) (Upgrade, error) {
	return call(ctx, u.group, rest.GetUpgrade, rest.None{})
}

// Start begins one, whose programs are objects of the cluster already.
func (u Upgrades) Start(ctx context.Context, q UpgradeRequest) (Upgrade, error) {
	return call(ctx, u.group, rest.StartUpgrade, rest.UpgradeIn{Body: q})
}

// Change pauses, resumes or undoes it: action is "pause", "resume" or "undo".
func (u Upgrades) Change(ctx context.Context, action string, q UpgradeAction) (Upgrade, error) {
	return call(ctx, u.group, rest.ChangeUpgrade, rest.ChangeUpgradeIn{Action: action, Body: q})
}

// Metrics are what instances use, measured when it is asked.
type Metrics struct{ group }

// Instances is what instances use, of one application where that is not "".
func (m Metrics) Instances(ctx context.Context, app string) ([]InstanceMetrics, error) {
	return callList(ctx, m.group, rest.TopInstances, rest.TopIn{App: app})
}

// Workers is what the instances on workers use.
func (m Metrics) Workers(ctx context.Context) ([]WorkerMetrics, error) {
	return callList(ctx, m.group, rest.TopWorkers, rest.None{})
}

// Clusters is what the instances in clusters use.
func (m Metrics) Clusters(ctx context.Context) ([]ClusterMetrics, error) {
	return callList(ctx, m.group, rest.TopClusters, rest.None{})
}

// Page is what Prometheus reads of the server, or of one of its workers where that is not "",
// of at most most bytes.
func (m Metrics) Page(ctx context.Context, cluster, worker string, most int64) ([]byte, error) {
	return m.conn.Figures(ctx, cluster, worker, most)
}
