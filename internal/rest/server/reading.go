package server

import (
	"context"
	"net/http"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/drain"
	"github.com/verge-edge/verge/internal/rest/server/eventstream"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// What is read while it grows: logs, events, and the lists that are watched.

const defaultLogBytes = 64 << 10

func (s *Server) logs(ctx context.Context, in *rest.LogsIn) (rpc.LogChunk, error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return rpc.LogChunk{}, err
	}
	since, err := parseSince(in.Since)
	if err != nil {
		return rpc.LogChunk{}, err
	}
	size := in.Max
	if size == 0 {
		size = defaultLogBytes
	}
	b, _ := s.backend.(rest.Instances)
	return drain.Hold(ctx, s.drain, func(ctx context.Context) (rpc.LogChunk, error) {
		return b.Logs(ctx, in.ID, rpc.LogAsk{
			Offset: in.Offset, Max: size, Wait: wait, Since: since, Times: in.Times, Previous: in.Previous,
			Former: in.Former,
		})
	})
}

func (s *Server) events(ctx context.Context, in *rest.EventsIn) (apiv1.EventPage, error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return apiv1.EventPage{}, err
	}
	page, err := drain.Hold(ctx, s.drain, func(ctx context.Context) (apiv1.EventPage, error) {
		return s.nextEvents(ctx, in.After, wait)
	})
	if page.Events == nil {
		page.Events = []apiv1.Event{}
	}
	return page, err
}

// nextEvents waits for the first event that who asks may see: what others do must
// not show, not even as an early answer.
func (s *Server) nextEvents(ctx context.Context, after uint64, wait time.Duration) (apiv1.EventPage, error) {
	b, _ := s.backend.(rest.Status)
	who, until := access.From(ctx), time.Now().Add(wait)
	for {
		page, err := b.Events(ctx, after, max(0, time.Until(until)))
		if err != nil {
			return page, err
		}
		seen := rest.VisibleEvents(s.site, who, page)
		if len(seen.Events) > 0 || len(page.Events) == 0 {
			return seen, nil
		}
		after = page.After // and if the request has ended, the next page comes at once
	}
}

// lists are those of the backend that can be watched.
func (s *Server) lists() eventstream.Lists {
	status, _ := s.backend.(rest.Status)
	return eventstream.Lists{
		Applications: listOf(s, rest.ListApplications.Operation, rest.Applications.Applications),
		Instances: listOf(s, rest.ListInstances.Operation,
			func(b rest.Instances, ctx context.Context) ([]apiv1.InstanceView, error) {
				return b.Instances(ctx, "", "")
			}),
		Clusters:   listOf(s, rest.ListClusters.Operation, rest.Clusters.Clusters),
		Workers:    listOf(s, rest.ListWorkers.Operation, rest.Workers.Workers),
		Namespaces: listOf(s, rest.ListNamespaces.Operation, rest.Namespaces.Namespaces),
		Events: func(ctx context.Context, after uint64, wait time.Duration) (apiv1.EventPage, error) {
			return status.Events(ctx, after, wait)
		},
		Changed: s.backend.Changes,
	}
}

// listOf is a list of the backend, or an error that says where it is to be had.
func listOf[B, T any](s *Server, o *rest.Operation, f func(B, context.Context) ([]T, error)) func(context.Context) ([]T,
	error) {
	b, ok := s.backend.(B)
	return func(ctx context.Context) ([]T, error) {
		if !ok {
			return nil, s.referrals[o.ID].Problem(func(string) string { return "" })
		}
		return f(b, ctx)
	}
}

// parseSince reads how long ago something begins; "" is at the beginning.
func parseSince(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := api.ParseDuration(text)
	if err != nil {
		return 0, wire.Problemf(http.StatusUnprocessableEntity, "invalid-request", "write for example since=10m",
			"the request is not valid", "query.since: %v", err)
	}
	return d.Std(), nil
}

// parseWait reads how long a request may be held; "" is not at all.
func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := api.ParseDuration(text)
	if err != nil {
		return 0, wire.Problemf(http.StatusUnprocessableEntity, "invalid-request", "write for example wait=20s",
			"the request is not valid", "query.wait: %v", err)
	}
	if d.Std() > maxWait {
		return 0, wire.Problemf(http.StatusUnprocessableEntity, "invalid-request", "ask again after each answer",
			"the request is not valid", "query.wait: %s is more than %s", text, maxWait)
	}
	return d.Std(), nil
}
