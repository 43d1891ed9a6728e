package rest

import (
	"context"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Workers is the part of a backend that is about workers.
type Workers interface {
	Workers(ctx context.Context) ([]rpc.WorkerView, error)
	// Entries are the addresses at which services are reached on a worker.
	Entries(ctx context.Context, cluster, worker string) ([]rpc.EntryView, error)
	// CordonWorker takes one out of use; durable when it returns. Doing it again changes
	// what is new in the request.
	CordonWorker(ctx context.Context, cluster, worker string, r rpc.CordonRequest) (wire.Cordon, error)
	// UncordonWorker takes that back, a drain with it.
	UncordonWorker(ctx context.Context, cluster, worker string) error
	// WorkerDrain says how far a drain is.
	WorkerDrain(ctx context.Context, cluster, worker string) (rpc.DrainView, error)
}

// Members is the part of a backend that lets workers stay, be gateways, and takes them out.
// All of it is durable when it returns.
type Members interface {
	// RemoveWorker forgets a worker and frees its name; its connection is closed. Without
	// force it is refused where something would be lost.
	RemoveWorker(ctx context.Context, cluster, worker string, force bool) error
	// RevokeWorker revokes the key of a worker; the worker stays, and whoever joins again
	// under its name is it.
	RevokeWorker(ctx context.Context, cluster, worker string) error
	// AllowGateway lets a worker be a gateway with TLS, which is given the certificates
	// of hosts and their keys; DenyGateway takes that back.
	AllowGateway(ctx context.Context, cluster, worker string) (wire.GatewayGrant, error)
	DenyGateway(ctx context.Context, cluster, worker string) error
}

// Clusters is the part of a backend that is about clusters.
type Clusters interface {
	Clusters(ctx context.Context) ([]apiv1.ClusterView, error)
	// CordonCluster and the others are as for a worker.
	CordonCluster(ctx context.Context, cluster string, r rpc.CordonRequest) (wire.Cordon, error)
	UncordonCluster(ctx context.Context, cluster string) error
	ClusterDrain(ctx context.Context, cluster string) (rpc.DrainView, error)
	RemoveCluster(ctx context.Context, cluster string, force bool) error
	RevokeCluster(ctx context.Context, cluster string) error
}

// Routes is the part of a backend that is about how a worker routes and reaches
// others. It is asked at the moment of the question and measures then.
type Routes interface {
	// Route is how a service of an application is routed on a worker.
	Route(ctx context.Context, cluster, worker, app, service string) (rpc.RouteReport, error)
	// Net is how a worker reaches those others to which it has routes.
	Net(ctx context.Context, cluster, worker string) (rpc.NetReport, error)
}

// Plugins is the part of a backend that is about scheduler plugins.
type Plugins interface {
	// Plugins are those that are registered, and those as which somebody has joined, by
	// name.
	Plugins(ctx context.Context) ([]apiv1.PluginView, error)
	// RevokePlugin revokes all keys of a scheduler plugin; whoever joins again under its
	// name is it.
	RevokePlugin(ctx context.Context, plugin string) error
}

// Upgrades is the part of a backend that is about the program of a cluster's workers.
type Upgrades interface {
	// Upgrade says how far the last one is.
	Upgrade(ctx context.Context) (apiv1.UpgradeView, error)
	// StartUpgrade begins one, whose programs are objects of the cluster already; durable
	// when it returns.
	StartUpgrade(ctx context.Context, q apiv1.UpgradeRequest) (apiv1.UpgradeView, error)
	// ChangeUpgrade pauses, resumes or undoes it (apiv1.UpgradePause and so on); durable
	// when it returns.
	ChangeUpgrade(ctx context.Context, action string, q apiv1.UpgradeAction) (apiv1.UpgradeView, error)
}

// What the operations take.
type (
	// WorkerIn is what ListEntries, UncordonWorker, GetWorkerDrain, AllowGateway, DenyGateway, RevokeWorker, GetNet and ListVolumes take.
	WorkerIn struct {
		Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
		Worker  string `path:"worker" maxLength:"63" doc:"name of the worker"`
	}
	// CordonWorkerIn is what CordonWorker takes.
	CordonWorkerIn struct {
		Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
		Worker  string `path:"worker" maxLength:"63" doc:"name of the worker"`
		Body    rpc.CordonRequest
	}
	// RemoveWorkerIn is what RemoveWorker takes.
	RemoveWorkerIn struct {
		Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
		Worker  string `path:"worker" maxLength:"63" doc:"name of the worker"`
		Force   bool   `query:"force" doc:"also where it is in use"`
	}
	// RouteIn is what GetRoute takes.
	RouteIn struct {
		Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
		Worker  string `path:"worker" maxLength:"63" doc:"name of the worker"`
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `path:"service" maxLength:"63" doc:"name of the service"`
	}
	// ClusterIn is what UncordonCluster, GetClusterDrain and RevokeCluster take.
	ClusterIn struct {
		Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
	}
	// CordonClusterIn is what CordonCluster takes.
	CordonClusterIn struct {
		Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
		Body    rpc.CordonRequest
	}
	// RemoveClusterIn is what RemoveCluster takes.
	RemoveClusterIn struct {
		Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
		Force   bool   `query:"force" doc:"also where it is in use"`
	}
	// PluginIn is what RevokePlugin takes.
	PluginIn struct {
		Plugin string `path:"plugin" maxLength:"63" doc:"name of the scheduler plugin"`
	}
	// UpgradeIn is what StartUpgrade takes.
	UpgradeIn struct{ Body apiv1.UpgradeRequest }
	// ChangeUpgradeIn is what ChangeUpgrade takes.
	ChangeUpgradeIn struct {
		Action string `path:"change" enum:"pause,resume,undo" doc:"what is to become of it"`
		Body   apiv1.UpgradeAction
	}
)

// Subject implements Subjecter.
func (in *PluginIn) Subject() (on, detail string) { return "plugin/" + in.Plugin, "" }

// Subject implements Subjecter.
func (in *UpgradeIn) Subject() (on, detail string) {
	for i, p := range in.Body.Programs {
		if i > 0 {
			detail += ", "
		}
		detail += p.OS + "/" + p.Arch + " " + p.SHA256[:min(len(p.SHA256), 64)]
	}
	return "system/upgrade", detail
}

// Subject implements Subjecter.
func (in *ChangeUpgradeIn) Subject() (on, detail string) { return "system/upgrade", in.Action }

// Operations on workers, clusters, plugins and the program of workers.
var (
	ListWorkers = define("list-workers", "GET /v1/workers", "List workers", each(OfWorker),
		func(ctx context.Context, b Workers, _ *None) (Items[rpc.WorkerView], error) {
			return list(b.Workers(ctx))
		})
	ListEntries = define("list-entries", "GET /v1/workers/{cluster}/{worker}/entries", "Where services are reached on a worker",
		may(access.See, worker("cluster", "worker")),
		func(ctx context.Context, b Workers, in *WorkerIn) (Items[rpc.EntryView], error) {
			return list(b.Entries(ctx, in.Cluster, in.Worker))
		})
	CordonWorker = define("cordon-worker", "PUT /v1/workers/{cluster}/{worker}/cordon", "Take a worker out of use",
		may(access.Operate, worker("cluster", "worker")),
		func(ctx context.Context, b Workers, in *CordonWorkerIn) (wire.Cordon, error) {
			return b.CordonWorker(ctx, in.Cluster, in.Worker, in.Body)
		})
	UncordonWorker = define("uncordon-worker", "DELETE /v1/workers/{cluster}/{worker}/cordon", "Take a worker into use again",
		may(access.Operate, worker("cluster", "worker")),
		func(ctx context.Context, b Workers, in *WorkerIn) (None, error) {
			return None{}, b.UncordonWorker(ctx, in.Cluster, in.Worker)
		})
	GetWorkerDrain = define("get-worker-drain", "GET /v1/workers/{cluster}/{worker}/drain", "What is still on a worker that is drained",
		may(access.Operate, worker("cluster", "worker")),
		func(ctx context.Context, b Workers, in *WorkerIn) (rpc.DrainView, error) {
			return b.WorkerDrain(ctx, in.Cluster, in.Worker)
		})

	AllowGateway = define("allow-gateway", "PUT /v1/workers/{cluster}/{worker}/gateway", "Let a worker be a gateway with TLS",
		may(access.Admit, worker("cluster", "worker")),
		func(ctx context.Context, b Members, in *WorkerIn) (wire.GatewayGrant, error) {
			return b.AllowGateway(ctx, in.Cluster, in.Worker)
		})
	DenyGateway = define("deny-gateway", "DELETE /v1/workers/{cluster}/{worker}/gateway", "Let a worker be a gateway with TLS no more",
		may(access.Admit, worker("cluster", "worker")),
		func(ctx context.Context, b Members, in *WorkerIn) (None, error) {
			return None{}, b.DenyGateway(ctx, in.Cluster, in.Worker)
		})
	RemoveWorker = define("remove-worker", "DELETE /v1/workers/{cluster}/{worker}", "Take a worker out",
		may(access.Operate, worker("cluster", "worker")),
		func(ctx context.Context, b Members, in *RemoveWorkerIn) (None, error) {
			return None{}, b.RemoveWorker(ctx, in.Cluster, in.Worker, in.Force)
		})
	RevokeWorker = define("revoke-worker", "POST /v1/workers/{cluster}/{worker}/revoke", "Make the key of a worker count no more",
		may(access.Operate, worker("cluster", "worker")),
		func(ctx context.Context, b Members, in *WorkerIn) (None, error) {
			return None{}, b.RevokeWorker(ctx, in.Cluster, in.Worker)
		})

	ListClusters = define("list-clusters", "GET /v1/clusters", "List clusters", each(OfCluster),
		func(ctx context.Context, b Clusters, _ *None) (Items[apiv1.ClusterView], error) {
			return list(b.Clusters(ctx))
		})
	CordonCluster = define("cordon-cluster", "PUT /v1/clusters/{cluster}/cordon", "Take a cluster out of use",
		may(access.Manage, cluster("cluster")),
		func(ctx context.Context, b Clusters, in *CordonClusterIn) (wire.Cordon, error) {
			return b.CordonCluster(ctx, in.Cluster, in.Body)
		})
	UncordonCluster = define("uncordon-cluster", "DELETE /v1/clusters/{cluster}/cordon", "Take a cluster into use again",
		may(access.Manage, cluster("cluster")),
		func(ctx context.Context, b Clusters, in *ClusterIn) (None, error) {
			return None{}, b.UncordonCluster(ctx, in.Cluster)
		})
	GetClusterDrain = define("get-cluster-drain", "GET /v1/clusters/{cluster}/drain", "What is still in a cluster that is drained",
		may(access.Manage, cluster("cluster")),
		func(ctx context.Context, b Clusters, in *ClusterIn) (rpc.DrainView, error) {
			return b.ClusterDrain(ctx, in.Cluster)
		})
	RemoveCluster = define("remove-cluster", "DELETE /v1/clusters/{cluster}", "Take a cluster out", may(access.Manage, cluster("cluster")),
		func(ctx context.Context, b Clusters, in *RemoveClusterIn) (None, error) {
			return None{}, b.RemoveCluster(ctx, in.Cluster, in.Force)
		})
	RevokeCluster = define("revoke-cluster", "POST /v1/clusters/{cluster}/revoke", "Make the key of a cluster count no more",
		may(access.Manage, cluster("cluster")),
		func(ctx context.Context, b Clusters, in *ClusterIn) (None, error) {
			return None{}, b.RevokeCluster(ctx, in.Cluster)
		})

	GetRoute = define("get-route", "GET /v1/workers/{cluster}/{worker}/routes/{app}/{service}", "How a worker routes a service",
		may(access.See, worker("cluster", "worker")),
		func(ctx context.Context, b Routes, in *RouteIn) (rpc.RouteReport, error) {
			return b.Route(ctx, in.Cluster, in.Worker, in.App, in.Service)
		})
	GetNet = define("get-net", "GET /v1/workers/{cluster}/{worker}/net", "How a worker reaches others",
		may(access.See, worker("cluster", "worker")),
		func(ctx context.Context, b Routes, in *WorkerIn) (rpc.NetReport, error) {
			return b.Net(ctx, in.Cluster, in.Worker)
		})

	ListPlugins = define("list-plugins", "GET /v1/plugins", "List the scheduler plugins of a cluster",
		each(func(v apiv1.PluginView) access.Object { // the cluster that asks it
			return access.Object{Kind: access.Cluster, Name: v.Cluster, Cluster: v.Cluster}
		}),
		func(ctx context.Context, b Plugins, _ *None) (Items[apiv1.PluginView], error) {
			return list(b.Plugins(ctx))
		})
	RevokePlugin = define("revoke-plugin", "POST /v1/plugins/{plugin}/revoke", "Make the keys of a scheduler plugin count no more",
		may(access.Admit, about(func(*PluginIn) access.Object { return access.Object{Kind: access.Cluster} })),
		func(ctx context.Context, b Plugins, in *PluginIn) (None, error) {
			return None{}, b.RevokePlugin(ctx, in.Plugin)
		})

	// Who upgrades workers has their machines: that is for administrators alone.
	GetUpgrade = define("get-upgrade", "GET /v1/upgrade", "How far the upgrade of the workers is", may(access.Manage, system),
		func(ctx context.Context, b Upgrades, _ *None) (apiv1.UpgradeView, error) { return b.Upgrade(ctx) })
	StartUpgrade = define("start-upgrade", "POST /v1/upgrade", "Upgrade the workers of the cluster, in waves", may(access.Manage, system),
		func(ctx context.Context, b Upgrades, in *UpgradeIn) (apiv1.UpgradeView, error) {
			return b.StartUpgrade(ctx, in.Body)
		})
	ChangeUpgrade = define("change-upgrade", "POST /v1/upgrade/{change}", "Pause, resume or undo the upgrade of the workers",
		may(access.Manage, system),
		func(ctx context.Context, b Upgrades, in *ChangeUpgradeIn) (apiv1.UpgradeView, error) {
			return b.ChangeUpgrade(ctx, in.Action, in.Body)
		})
)

// OfCluster is what a cluster is for who may see it.
func OfCluster(v apiv1.ClusterView) access.Object {
	return access.Object{Kind: access.Cluster, Name: v.Name, Cluster: v.Name}
}

// OfWorker is what a worker is for who may see it.
func OfWorker(v rpc.WorkerView) access.Object {
	return access.Object{Kind: access.Worker, Name: v.Cluster + "/" + v.Name, Cluster: v.Cluster}
}
