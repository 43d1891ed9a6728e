package rest

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// maxApplyBytes leaves room above the limit of a descriptor, so that one that
// is a little too long gets the parser's own message.
const maxApplyBytes = api.MaxDescriptorBytes + 4096

// Outputs and inputs of the operations. A list is an object with items, so that
// fields can be added beside them.
type (
	items[T any] struct {
		Items []T `json:"items"`
	}
	none struct{}

	appInput struct {
		App string `path:"app" maxLength:"63" doc:"name of the application"`
	}
	deleteInput struct {
		App   string `path:"app" maxLength:"63" doc:"name of the application"`
		Local bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
	}
	applyInput struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application, or - to take it from the descriptor"`
		DryRun  bool   `query:"dry_run" doc:"check only, change nothing"`
		Local   bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
		RawBody []byte `contentType:"application/yaml"`
	}
	instancesInput struct {
		App     string `query:"app" maxLength:"63" doc:"only of this application"`
		Service string `query:"service" maxLength:"63" doc:"only of this service"`
	}
	instanceInput struct {
		ID string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
	}
	workerInput struct {
		Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
		Worker  string `path:"worker" maxLength:"63" doc:"name of the worker"`
	}
	logsInput struct {
		ID       string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
		Offset   int64  `query:"offset" doc:"bytes from the start of the log; negative: lines from its end"`
		Max      int    `query:"max" minimum:"0" maximum:"524288" doc:"bytes at most; 0: 64 KiB"`
		Wait     string `query:"wait" maxLength:"16" example:"20s" doc:"wait this long for something new, at most 30s"`
		Since    string `query:"since" maxLength:"16" example:"10m" doc:"leave out what was written longer ago, as far as the worker knows"`
		Times    bool   `query:"times" doc:"say when the data was written"`
		Previous bool   `query:"previous" doc:"what the run before the present one has written, or the last one where none runs"`
		Former   int    `query:"former" minimum:"0" maximum:"64" doc:"the log on a worker where the instance was before: 1 is the last before the present; the answer repeats it"`
	}
	eventsInput struct {
		After uint64 `query:"after" doc:"sequence number of the last event already seen"`
		Wait  string `query:"wait" maxLength:"16" example:"20s" doc:"wait this long for the first, at most 30s"`
	}
	tokenInput struct{ Body wire.TokenRequest }
	joinInput  struct{ Body wire.JoinRequest }
)

func (in *applyInput) descriptor() []byte { return in.RawBody }

const defaultLogBytes = 64 << 10

func (s *Server) registerOperations(api huma.API) {
	b := s.backend
	register(s, api, op("apply", http.MethodPut, "/v1/applications/{app}", "Apply a descriptor", may(access.Apply, inDescriptor)), s.apply)
	register(s, api, op("list-applications", http.MethodGet, "/v1/applications", "List applications", each(ofApp)),
		func(ctx context.Context, _ *none) (items[wire.AppView], error) { return list(b.Applications(ctx)) })
	register(s, api, op("get-application", http.MethodGet, "/v1/applications/{app}", "An application and how far it is", may(access.See, app("app"))),
		func(ctx context.Context, in *appInput) (wire.AppView, error) { return b.Application(ctx, in.App) })
	register(s, api, op("delete-application", http.MethodDelete, "/v1/applications/{app}", "Start the end of an application", may(access.Delete, app("app"))),
		func(ctx context.Context, in *deleteInput) (none, error) {
			return none{}, b.Delete(WithLocal(ctx, in.Local), in.App)
		})
	register(s, api, op("list-instances", http.MethodGet, "/v1/instances", "List instances", each(ofInstance)),
		func(ctx context.Context, in *instancesInput) (items[wire.InstanceView], error) {
			return list(b.Instances(ctx, in.App, in.Service))
		})
	register(s, api, op("get-instance", http.MethodGet, "/v1/instances/{id}", "An instance", may(access.See, instance("id"))),
		func(ctx context.Context, in *instanceInput) (wire.InstanceView, error) { return b.Instance(ctx, in.ID) })
	register(s, api, op("explain-instance", http.MethodGet, "/v1/instances/{id}/explain", "Why an instance is where it is", may(access.See, instance("id"))),
		func(ctx context.Context, in *instanceInput) (wire.Explanation, error) { return b.Explain(ctx, in.ID) })
	register(s, api, op("read-logs", http.MethodGet, "/v1/instances/{id}/logs", "Read the log of an instance", may(access.Logs, instance("id"))), s.logs)
	register(s, api, op("list-clusters", http.MethodGet, "/v1/clusters", "List clusters", each(ofCluster)),
		func(ctx context.Context, _ *none) (items[wire.ClusterView], error) { return list(b.Clusters(ctx)) })
	register(s, api, op("list-workers", http.MethodGet, "/v1/workers", "List workers", each(ofWorker)),
		func(ctx context.Context, _ *none) (items[wire.WorkerView], error) { return list(b.Workers(ctx)) })
	register(s, api, op("list-entries", http.MethodGet, "/v1/workers/{cluster}/{worker}/entries", "Where services are reached on a worker", may(access.See, worker("cluster", "worker"))),
		func(ctx context.Context, in *workerInput) (items[wire.EntryView], error) {
			return list(b.Entries(ctx, in.Cluster, in.Worker))
		})
	register(s, api, op("list-events", http.MethodGet, "/v1/events", "What happened", part(visibleEvents)), s.events)
	register(s, api, op("get-status", http.MethodGet, "/v1/status", "The state of this tier and of what is below it", part(visibleStatus)),
		func(ctx context.Context, _ *none) (wire.StatusView, error) { return b.Status(ctx) })
	register(s, api, op("create-token", http.MethodPost, "/v1/tokens", "Make a token", may(access.Admit, about(ofToken))),
		func(ctx context.Context, in *tokenInput) (wire.TokenReply, error) { return b.CreateToken(ctx, in.Body) })
	join := op("join", http.MethodPost, "/v1/join", "Join as a cluster or worker with a token", joining)
	join.Security = []map[string][]string{} // the token in the body is checked instead
	join.MaxBodyBytes = maxJoinBytes
	register(s, api, join, s.join)
	s.registerOperating(api)
	s.registerPlanning(api)
	s.registerRolling(api)
	s.registerStoring(api)
	s.registerRouting(api)
	s.registerScaling(api)
	s.registerProfiles(api)
	s.registerNamespaces(api)
	s.registerSecrets(api)
	s.registerHooks(api)
	s.registerObjects(api)
	s.registerSites(api)
	s.registerRecovery(api)
	s.registerLooking(api)
	s.registerUsing(api)
	s.registerPeople(api)
	s.registerRenewing(api)
	s.registerLeaving(api)
	s.registerPlugins(api)
	s.registerCertifying(api)
	s.registerUpgrading(api)
	register(s, api, op("get-version", http.MethodGet, "/v1/version", "Versions of this process", anyone),
		func(context.Context, *none) (wire.VersionView, error) {
			return wire.VersionView{Version: s.version, Go: runtime.Version(), Wire: wire.Version}, nil
		})
}

func (s *Server) apply(ctx context.Context, in *applyInput) (wire.ApplyResult, error) {
	ctx = WithLocal(ctx, in.Local)
	// The name of the path is checked before anything is changed; "-" saves
	// clients that have parsed the descriptor the second look.
	if in.App != "-" {
		r, err := s.backend.Apply(ctx, in.RawBody, true)
		if err != nil || (in.DryRun && r.Name == in.App) {
			return r, err
		}
		if r.Name != in.App {
			return r, wire.Problemf(http.StatusUnprocessableEntity, "wrong-name", "send it to /v1/applications/"+r.Name,
				"the descriptor is of another application", "the path says %q, the descriptor %q", in.App, r.Name)
		}
	}
	return s.backend.Apply(ctx, in.RawBody, in.DryRun)
}

func (s *Server) logs(ctx context.Context, in *logsInput) (wire.LogChunk, error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return wire.LogChunk{}, err
	}
	since, err := parseSince(in.Since)
	if err != nil {
		return wire.LogChunk{}, err
	}
	size := in.Max
	if size == 0 {
		size = defaultLogBytes
	}
	return waiting(ctx, s, func(ctx context.Context) (wire.LogChunk, error) {
		return s.backend.Logs(ctx, in.ID, wire.LogAsk{
			Offset: in.Offset, Max: size, Wait: wait, Since: since, Times: in.Times, Previous: in.Previous, Former: in.Former,
		})
	})
}

func (s *Server) events(ctx context.Context, in *eventsInput) (wire.EventPage, error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return wire.EventPage{}, err
	}
	page, err := waiting(ctx, s, func(ctx context.Context) (wire.EventPage, error) {
		return s.nextEvents(ctx, in.After, wait)
	})
	if page.Events == nil {
		page.Events = []wire.Event{}
	}
	return page, err
}

// nextEvents waits for the first event that who asks may see: what others do must
// not show, not even as an early answer.
func (s *Server) nextEvents(ctx context.Context, after uint64, wait time.Duration) (wire.EventPage, error) {
	who, until := access.From(ctx), time.Now().Add(wait)
	for {
		page, err := s.backend.Events(ctx, after, max(0, time.Until(until)))
		if err != nil {
			return page, err
		}
		seen := visibleEvents(s, who, page)
		if len(seen.Events) > 0 || len(page.Events) == 0 {
			return seen, nil
		}
		after = page.After // and if the request has ended, the next page comes at once
	}
}

func (s *Server) join(ctx context.Context, in *joinInput) (wire.JoinReply, error) {
	peer := PeerOf(ctx)
	if s.joins.exhausted(peer, time.Now()) || !s.goodJoins.allow(peer, time.Now()) {
		return wire.JoinReply{}, wire.Problemf(http.StatusTooManyRequests, "too-many-joins", "wait a second and try again",
			"too many join requests", "at most %d a second are answered from one address that are refused, and %d of all", joinsPerSecond, goodPerSecond)
	}
	reply, err := s.backend.Join(ctx, in.Body)
	if err != nil {
		s.joins.allow(peer, time.Now()) // takes one from the bucket
	}
	return reply, err
}
