package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Storing is the part of a Backend that is about what instances have stored.
type Storing interface {
	// Volumes are the named volumes of a worker.
	Volumes(ctx context.Context, cluster, worker string) ([]wire.VolumeView, error)
	// RemoveVolume removes one with all that is in it; one that is used is an error.
	RemoveVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef) error
	// MoveVolumes begins to move the volumes of the instance that has this one to another
	// worker of the cluster; CancelVolumes lets it go on where it was.
	MoveVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeMoveRequest) error
	CancelVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef) error
	// ForgetVolumes lets the instance that has this one begin elsewhere with empty ones,
	// while its worker is away.
	ForgetVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeForgetRequest) error
	// SnapshotVolume puts what is in a volume into an object, RestoreVolume makes it what
	// was in one. Its instance is stopped meanwhile; CancelVolumes counts for them, too.
	SnapshotVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeSnapshotRequest) error
	RestoreVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeSnapshotRequest) error
	// Snapshots are those that this cluster has taken, by volume and time. They are removed
	// with their objects.
	Snapshots(ctx context.Context) ([]wire.SnapshotView, error)
}

// VolumePath is where a volume is in the paths of this interface. It has a name for others
// since the library leaves out what is embedded and has none.
type VolumePath struct {
	Cluster   string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
	Worker    string `path:"worker" maxLength:"63" doc:"name of the worker"`
	Namespace string `path:"namespace" maxLength:"63" doc:"namespace of the application"`
	Instance  string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
	Name      string `path:"name" maxLength:"63" doc:"name of the volume"`
}

func (in *VolumePath) ref() wire.VolumeRef {
	return wire.VolumeRef{Namespace: in.Namespace, Instance: in.Instance, Name: in.Name}
}

func (in *VolumePath) subject() (on, detail string) {
	return "worker/" + in.Cluster + "/" + in.Worker, "volume " + in.ref().String()
}

type volumeMoveInput struct {
	VolumePath
	Body wire.VolumeMoveRequest
}

func (in *volumeMoveInput) subject() (on, detail string) {
	on, detail = in.VolumePath.subject()
	return on, detail + " to worker " + in.Body.To
}

type volumeForgetInput struct {
	VolumePath
	Body wire.VolumeForgetRequest
}

func (in *volumeForgetInput) subject() (on, detail string) {
	on, detail = in.VolumePath.subject()
	return on, detail + ", for good"
}

type volumeObjectInput struct {
	VolumePath
	Body wire.VolumeSnapshotRequest
}

func (in *volumeObjectInput) subject() (on, detail string) {
	on, detail = in.VolumePath.subject()
	return on, detail + ", object " + in.Body.Object
}

func (s *Server) registerStoring(api huma.API) {
	b := s.backend
	register(s, api, op("list-volumes", http.MethodGet, "/v1/workers/{cluster}/{worker}/volumes", "The named volumes of a worker", may(access.See, worker("cluster", "worker"))),
		func(ctx context.Context, in *workerInput) (items[wire.VolumeView], error) {
			return list(b.Volumes(ctx, in.Cluster, in.Worker))
		})
	register(s, api, op("delete-volume", http.MethodDelete, "/v1/workers/{cluster}/{worker}/volumes/{namespace}/{id}/{name}", "Remove a named volume that nothing uses, with all that is in it", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *VolumePath) (none, error) {
			return none{}, b.RemoveVolume(ctx, in.Cluster, in.Worker, in.ref())
		})
	register(s, api, op("list-snapshots", http.MethodGet, "/v1/snapshots", "The snapshots of volumes that this cluster has taken", part(readableSnapshots)),
		func(ctx context.Context, _ *struct{}) (items[wire.SnapshotView], error) {
			return list(b.Snapshots(ctx))
		})
	const one = "/v1/workers/{cluster}/{worker}/volumes/{namespace}/{id}/{name}"
	register(s, api, op("snapshot-volume", http.MethodPost, one+"/snapshot", "Put what is in a named volume into an object of the cluster; its instance is stopped meanwhile", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *volumeObjectInput) (none, error) {
			return none{}, b.SnapshotVolume(ctx, in.Cluster, in.Worker, in.ref(), in.Body)
		})
	register(s, api, op("restore-volume", http.MethodPost, one+"/restore", "Make a named volume what is in an object of the cluster; its instance is stopped meanwhile", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *volumeObjectInput) (none, error) {
			return none{}, b.RestoreVolume(ctx, in.Cluster, in.Worker, in.ref(), in.Body)
		})
	register(s, api, op("forget-volume", http.MethodPost, one+"/forget", "Let an instance whose worker is away begin elsewhere, with empty volumes", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *volumeForgetInput) (none, error) {
			return none{}, b.ForgetVolumes(ctx, in.Cluster, in.Worker, in.ref(), in.Body)
		})
	const moving = "/v1/workers/{cluster}/{worker}/volumes/{namespace}/{id}/{name}/move"
	register(s, api, op("move-volume", http.MethodPost, moving, "Move the named volumes of an instance to another worker of its cluster; it is stopped meanwhile", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *volumeMoveInput) (none, error) {
			return none{}, b.MoveVolumes(ctx, in.Cluster, in.Worker, in.ref(), in.Body)
		})
	register(s, api, op("cancel-volume-move", http.MethodDelete, moving, "Let an instance whose volumes are being moved go on where it was", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *VolumePath) (none, error) {
			return none{}, b.CancelVolumes(ctx, in.Cluster, in.Worker, in.ref())
		})
}

// readableSnapshots are those of namespaces that who asks may see.
func readableSnapshots(s *Server, who access.Who, out items[wire.SnapshotView]) items[wire.SnapshotView] {
	out.Items = access.Visible(who, out.Items, func(v wire.SnapshotView) access.Object {
		return s.here(access.Object{Kind: access.Namespace, Name: v.Namespace, Namespace: v.Namespace})
	})
	return out
}

// Snapshots are those of a cluster; see Storing.
func (c *Client) Snapshots(ctx context.Context) ([]wire.SnapshotView, error) {
	r, err := get[items[wire.SnapshotView]](ctx, c, call{path: "/v1/snapshots"})
	return r.Items, err
}

// Volumes are the named volumes of a worker; see Storing.
func (c *Client) Volumes(ctx context.Context, cluster, worker string) ([]wire.VolumeView, error) {
	r, err := get[items[wire.VolumeView]](ctx, c, call{path: workerPath(cluster, worker) + "/volumes"})
	return r.Items, err
}

// RemoveVolume removes one; see Storing.
func (c *Client) RemoveVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef) error {
	return c.do(ctx, call{method: http.MethodDelete, path: volumePath(cluster, worker, r)}, nil)
}

// MoveVolumes begins to move the volumes of an instance; see Storing.
func (c *Client) MoveVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeMoveRequest) error {
	return c.send(ctx, http.MethodPost, volumePath(cluster, worker, r)+"/move", q, nil)
}

// CancelVolumes ends that; see Storing.
func (c *Client) CancelVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef) error {
	return c.do(ctx, call{method: http.MethodDelete, path: volumePath(cluster, worker, r) + "/move"}, nil)
}

// ForgetVolumes gives the volumes of an instance up; see Storing.
func (c *Client) ForgetVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeForgetRequest) error {
	return c.send(ctx, http.MethodPost, volumePath(cluster, worker, r)+"/forget", q, nil)
}

// SnapshotVolume begins to put a volume into an object; see Storing.
func (c *Client) SnapshotVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeSnapshotRequest) error {
	return c.send(ctx, http.MethodPost, volumePath(cluster, worker, r)+"/snapshot", q, nil)
}

// RestoreVolume begins to make a volume what is in an object; see Storing.
func (c *Client) RestoreVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeSnapshotRequest) error {
	return c.send(ctx, http.MethodPost, volumePath(cluster, worker, r)+"/restore", q, nil)
}

func volumePath(cluster, worker string, r wire.VolumeRef) string {
	return workerPath(cluster, worker) + "/volumes/" + url.PathEscape(r.Namespace) + "/" + url.PathEscape(r.Instance) + "/" + url.PathEscape(r.Name)
}
