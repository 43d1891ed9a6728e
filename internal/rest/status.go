package rest

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Status is the part of a backend that says how it is and what happened.
type Status interface {
	// Events after a sequence number; waits up to wait for the first.
	Events(ctx context.Context, after uint64, wait time.Duration) (apiv1.EventPage, error)
	Status(ctx context.Context) (apiv1.StatusView, error)
	// CA is who trusts what, and until when.
	CA(ctx context.Context) (apiv1.CAView, error)
}

// Authority is the part of a backend that changes the root's authority.
type Authority interface {
	// RotateCA begins to replace the authority, or ends that; durable when it
	// returns.
	RotateCA(ctx context.Context, r apiv1.CARotateRequest) (apiv1.CAView, error)
}

// Backups is the part of a backend that copies all that it is, and knows how far what was
// restored from a copy is.
type Backups interface {
	// Backup writes an archive (package backup) of this moment into w, with the contents
	// of objects or without. It holds the role's keys.
	Backup(ctx context.Context, w io.Writer, objects bool) error
	// Recovery says how far it is.
	Recovery(ctx context.Context) (apiv1.RecoveryView, error)
	// FinishRecovery gives one of those up that are still to be asked, or ("") ends
	// the recovery as a whole.
	FinishRecovery(ctx context.Context, peer string) error
}

// Sites is the part of a backend that is about changes which operators make at a
// site while its root is away. A root shows what it was told of them.
type Sites interface {
	LocalChanges(ctx context.Context) (apiv1.LocalView, error)
	// AckConflict forgets a conflict that somebody has looked at.
	AckConflict(ctx context.Context, id string) error
}

// LocalEdits is the part of a backend where such changes are made.
type LocalEdits interface {
	// DropLocal takes the local changes of a service back, of all services of the
	// application where service is "".
	DropLocal(ctx context.Context, app, service string) error
}

type localKey struct{}

// Local says whether who sent the request that ctx is of means it for this site
// alone, although the root could be asked.
func Local(ctx context.Context) bool {
	local, _ := ctx.Value(localKey{}).(bool)
	return local
}

// WithLocal is ctx for a call that is or is not meant for one site.
func WithLocal(ctx context.Context, local bool) context.Context {
	return context.WithValue(ctx, localKey{}, local)
}

// What the operations take.
type (
	// EventsIn is what ListEvents takes.
	EventsIn struct {
		After uint64 `query:"after" doc:"sequence number of the last event already seen"`
		Wait  string `query:"wait" maxLength:"16" example:"20s" doc:"wait this long for the first, at most 30s"`
	}
	// CAIn is what RotateCA takes.
	CAIn struct{ Body apiv1.CARotateRequest }
	// RecoveryIn is what FinishRecovery takes.
	RecoveryIn struct {
		Peer string `query:"peer" maxLength:"63" doc:"only of this one; none: as a whole"`
	}
	// DropIn is what DropLocalChange takes.
	DropIn struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `query:"service" maxLength:"63" doc:"only of this service"`
	}
	// ConflictIn is what AcknowledgeConflict takes.
	ConflictIn struct {
		ID string `path:"id" maxLength:"30" doc:"as it is listed"`
	}
)

// Subject implements Subjecter.
func (in *CAIn) Subject() (on, detail string) {
	detail = in.Body.Step
	if in.Body.Force {
		detail += " by force"
	}
	return "ca", detail
}

// Subject implements Subjecter.
func (in *RecoveryIn) Subject() (on, detail string) {
	if in.Peer == "" {
		return "system/recovery", "as a whole"
	}
	return "cluster/" + in.Peer, "not asked any more"
}

// Subject implements Subjecter.
func (in *DropIn) Subject() (on, detail string) {
	if in.Service != "" {
		detail = "service " + in.Service
	}
	return string(access.Application) + "/" + in.App, detail
}

// Subject implements Subjecter.
func (in *ConflictIn) Subject() (on, detail string) { return "conflict/" + in.ID, "" }

// Operations on the role itself, and on changes at sites.
var (
	ListEvents = define[Status, EventsIn, apiv1.EventPage]("list-events", "GET /v1/events", "What happened", part(VisibleEvents), nil)
	GetStatus  = define("get-status", "GET /v1/status", "The state of this tier and of what is below it", part(visibleStatus),
		func(ctx context.Context, b Status, _ *None) (apiv1.StatusView, error) { return b.Status(ctx) })
	GetCA = define("get-ca", "GET /v1/ca", "Who trusts which authority, and until when", may(access.Manage, system),
		func(ctx context.Context, b Status, _ *None) (apiv1.CAView, error) { return b.CA(ctx) })
	RotateCA = define("rotate-ca", "POST /v1/ca/rotate", "Replace the root's authority, step by step", may(access.Manage, system),
		func(ctx context.Context, b Authority, in *CAIn) (apiv1.CAView, error) {
			return b.RotateCA(ctx, in.Body)
		})
	GetVersion = define[any, None, apiv1.VersionView]("get-version", "GET /v1/version", "Versions of this process", anyone, nil)

	GetRecovery = define("get-recovery", "GET /v1/recovery", "How far what was restored from a backup is", may(access.Manage, system),
		func(ctx context.Context, b Backups, _ *None) (apiv1.RecoveryView, error) { return b.Recovery(ctx) })
	FinishRecovery = define("finish-recovery", "DELETE /v1/recovery", "Go on without asking what happened since the backup",
		may(access.Manage, system),
		func(ctx context.Context, b Backups, in *RecoveryIn) (None, error) {
			return None{}, b.FinishRecovery(ctx, in.Peer)
		})
	// Its answer is as large as the store: it is sent while it is made. It is a POST so that
	// it is logged as what it is.
	TakeBackup = streamOf[Backups]("take-backup", "POST /v1/backup", may(access.Manage, system))

	ListLocalChanges = define("list-local-changes", "GET /v1/local", "What was changed at sites, and what of it gave way to the root",
		part(visibleLocal),
		func(ctx context.Context, b Sites, _ *None) (apiv1.LocalView, error) { return b.LocalChanges(ctx) })
	AcknowledgeConflict = define("acknowledge-conflict", "DELETE /v1/local/conflicts/{id}", "Forget a conflict that was looked at",
		may(access.Operate, system),
		func(ctx context.Context, b Sites, in *ConflictIn) (None, error) {
			return None{}, b.AckConflict(ctx, in.ID)
		})
	DropLocalChange = define("drop-local-change", "DELETE /v1/local/changes/{app}", "Take the local changes of an application back",
		may(access.Operate, system),
		func(ctx context.Context, b LocalEdits, in *DropIn) (None, error) {
			return None{}, b.DropLocal(ctx, in.App, in.Service)
		})

	// Watch is the stream of how everything is and of every change.
	Watch = stream("watch", "GET /v1/watch", anyone)
	// Health and the description are for everybody.
	Livez   = stream("livez", "GET /livez", everybody)
	Readyz  = stream("readyz", "GET /readyz", everybody)
	OpenAPI = stream("openapi", "GET /openapi.json", everybody)
)

const (
	// BackupType is the media type of a backup.
	BackupType = "application/x-verge-backup"
	// WatchType is that of server-sent events.
	WatchType = "text/event-stream"
	// WatchKeepAlive is the longest silence of a watch, so that either side notices a dead
	// link.
	WatchKeepAlive = 15 * time.Second
	// CodeTooManyWatches says that there is no room for another watch.
	CodeTooManyWatches = "too-many-watches"
	// NoticeHeader carries what the server has to say beside an answer.
	NoticeHeader = "Verge-Notice"
)

// OfLocal is what a local change is about: the application at its cluster; site:
// it is that cluster that is asked.
func OfLocal(l wire.LocalChange, site bool) access.Object {
	return access.Object{Kind: access.Application, Name: l.App, Namespace: l.Namespace, Cluster: l.Cluster, Site: site}
}

// visibleLocal leaves of the local changes what who may see.
func visibleLocal(s Site, who access.Who, v apiv1.LocalView) apiv1.LocalView {
	v.Changes = access.Visible(who, v.Changes, func(l wire.LocalChange) access.Object { return s.Here(OfLocal(l, false)) })
	v.Conflicts = access.Visible(who, v.Conflicts, func(c wire.Conflict) access.Object { return s.Here(OfLocal(c.LocalChange, false)) })
	return v
}

// visibleStatus leaves of a status what who may see. The problems in it the
// backend makes of that alone.
func visibleStatus(s Site, who access.Who, v apiv1.StatusView) apiv1.StatusView {
	v.Clusters = access.Visible(who, v.Clusters, func(c apiv1.ClusterView) access.Object { return s.Here(OfCluster(c)) })
	v.Workers = access.Visible(who, v.Workers, func(w rpc.WorkerView) access.Object { return s.Here(OfWorker(w)) })
	v.Apps = access.Visible(who, v.Apps, func(a apiv1.AppView) access.Object { return s.Here(OfApp(a)) })
	local := visibleLocal(s, who, apiv1.LocalView{Changes: v.Local, Conflicts: v.Conflicts})
	v.Local, v.Conflicts = local.Changes, local.Conflicts
	return v
}

// VisibleEvents leaves of a page what who may see.
func VisibleEvents(s Site, who access.Who, page apiv1.EventPage) apiv1.EventPage {
	kept := []apiv1.Event{}
	for _, e := range page.Events {
		if s.SeesEvent(who, e) {
			kept = append(kept, e)
		}
	}
	page.Events = kept
	return page
}

// SeesEvent says whether who may see an event. It belongs to the namespace that its
// application was in then; and at the root an operator sees what its own cluster
// says, not what was thought of others before.
func (s Site) SeesEvent(who access.Who, e apiv1.Event) bool {
	if who.Admin {
		return true
	}
	kind, name, _ := strings.Cut(e.Subject, "/")
	o := access.Object{Kind: access.Kind(kind), Name: name}
	switch o.Kind {
	case access.Cluster:
		o.Cluster = name
	case access.Namespace:
		o.Namespace = name
	case access.Worker:
		o.Cluster, _, _ = strings.Cut(name, "/")
	case access.Application, access.Instance:
		if o.Namespace = e.Namespace; o.Namespace == "" {
			at, _ := s.Locate(o.Kind, name)
			o.Namespace = at.Namespace
		}
		o.Cluster = clusterOf(e.Tier)
		if o = s.Here(o); o.Namespace == "" && o.Cluster == "" {
			return false
		}
	default:
		return false
	}
	return access.May(who, access.See, s.Here(o)) == nil
}

// clusterOf is the cluster of a tier: "cluster/edge", "worker/edge/w1"; "" of the
// root.
func clusterOf(tier string) string {
	kind, name, _ := strings.Cut(tier, "/")
	if kind != "cluster" && kind != "worker" {
		return ""
	}
	name, _, _ = strings.Cut(name, "/")
	return name
}
