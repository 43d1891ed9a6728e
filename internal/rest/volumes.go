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
	// SnapshotVolume puts what is in a volume into an object, RestoreVolume makes it what
	// was in one. Its instance is stopped meanwhile; CancelVolumes counts for them, too.
	SnapshotVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeSnapshotRequest) error
	RestoreVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeSnapshotRequest) error
}

type volumeInput struct {
	Cluster   string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
	Worker    string `path:"worker" maxLength:"63" doc:"name of the worker"`
	Namespace string `path:"namespace" maxLength:"63" doc:"namespace of the application"`
	Instance  string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
	Name      string `path:"name" maxLength:"63" doc:"name of the volume"`
}

type volumeMoveInput struct {
	Cluster   string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
	Worker    string `path:"worker" maxLength:"63" doc:"name of the worker"`
	Namespace string `path:"namespace" maxLength:"63" doc:"namespace of the application"`
	Instance  string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
	Name      string `path:"name" maxLength:"63" doc:"name of the volume"`
	Body      wire.VolumeMoveRequest
}

func (in *volumeMoveInput) of() *volumeInput {
	return &volumeInput{Cluster: in.Cluster, Worker: in.Worker, Namespace: in.Namespace, Instance: in.Instance, Name: in.Name}
}

func (in *volumeMoveInput) subject() (on, detail string) {
	on, detail = in.of().subject()
	return on, detail + " to worker " + in.Body.To
}

type volumeObjectInput struct {
	Cluster   string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
	Worker    string `path:"worker" maxLength:"63" doc:"name of the worker"`
	Namespace string `path:"namespace" maxLength:"63" doc:"namespace of the application"`
	Instance  string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
	Name      string `path:"name" maxLength:"63" doc:"name of the volume"`
	Body      wire.VolumeSnapshotRequest
}

func (in *volumeObjectInput) of() *volumeInput {
	return &volumeInput{Cluster: in.Cluster, Worker: in.Worker, Namespace: in.Namespace, Instance: in.Instance, Name: in.Name}
}

func (in *volumeObjectInput) subject() (on, detail string) {
	on, detail = in.of().subject()
	return on, detail + ", object " + in.Body.Object
}

func (in *volumeInput) ref() wire.VolumeRef {
	return wire.VolumeRef{Namespace: in.Namespace, Instance: in.Instance, Name: in.Name}
}

func (in *volumeInput) subject() (on, detail string) {
	return "worker/" + in.Cluster + "/" + in.Worker, "volume " + in.ref().String()
}

func (s *Server) registerStoring(api huma.API) {
	b := s.backend
	register(s, api, op("list-volumes", http.MethodGet, "/v1/workers/{cluster}/{worker}/volumes", "The named volumes of a worker", may(access.See, worker("cluster", "worker"))),
		func(ctx context.Context, in *workerInput) (items[wire.VolumeView], error) {
			return list(b.Volumes(ctx, in.Cluster, in.Worker))
		})
	register(s, api, op("delete-volume", http.MethodDelete, "/v1/workers/{cluster}/{worker}/volumes/{namespace}/{id}/{name}", "Remove a named volume that nothing uses, with all that is in it", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *volumeInput) (none, error) {
			return none{}, b.RemoveVolume(ctx, in.Cluster, in.Worker, in.ref())
		})
	const one = "/v1/workers/{cluster}/{worker}/volumes/{namespace}/{id}/{name}"
	register(s, api, op("snapshot-volume", http.MethodPost, one+"/snapshot", "Put what is in a named volume into an object of the cluster; its instance is stopped meanwhile", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *volumeObjectInput) (none, error) {
			return none{}, b.SnapshotVolume(ctx, in.Cluster, in.Worker, in.of().ref(), in.Body)
		})
	register(s, api, op("restore-volume", http.MethodPost, one+"/restore", "Make a named volume what is in an object of the cluster; its instance is stopped meanwhile", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *volumeObjectInput) (none, error) {
			return none{}, b.RestoreVolume(ctx, in.Cluster, in.Worker, in.of().ref(), in.Body)
		})
	const moving = "/v1/workers/{cluster}/{worker}/volumes/{namespace}/{id}/{name}/move"
	register(s, api, op("move-volume", http.MethodPost, moving, "Move the named volumes of an instance to another worker of its cluster; it is stopped meanwhile", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *volumeMoveInput) (none, error) {
			return none{}, b.MoveVolumes(ctx, in.Cluster, in.Worker, in.of().ref(), in.Body)
		})
	register(s, api, op("cancel-volume-move", http.MethodDelete, moving, "Let an instance whose volumes are being moved go on where it was", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *volumeInput) (none, error) {
			return none{}, b.CancelVolumes(ctx, in.Cluster, in.Worker, in.ref())
		})
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
