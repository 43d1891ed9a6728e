package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/transport"
)

// Events are what happened.
type Events struct{ group }

// After is a page of the events after a sequence number. It waits for the first for at most
// wait, which is at most MaxWait.
func (e Events) After(ctx context.Context, after uint64, wait time.Duration) (EventPage, error) {
	return transport.Call(ctx, e.conn, rest.ListEvents, rest.EventsIn{After: after, Wait: waitText(wait)}, wait)
}

// Follow is the events after a sequence number, and those to come until the loop or ctx ends.
// An error is the last.
func (e Events) Follow(ctx context.Context, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			page, err := e.After(ctx, after, MaxWait)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, event := range page.Events {
				if !yield(event, nil) {
					return
				}
			}
			after = page.After
		}
	}
}

// What can be watched.
const (
	WatchApplications = "applications"
	WatchInstances    = "instances"
	WatchClusters     = "clusters"
	WatchWorkers      = "workers"
	WatchNamespaces   = "namespaces"
	WatchEvents       = "events"
)

// errStopped is returned by who has had enough.
var errStopped = errors.New("stopped")

// Watch tells how everything of some kinds is, and every change from then on, until the loop or
// ctx ends. A connection that is lost is made again, and nothing is missed; an event of type
// "lost" says so. An error is the last. The first connection is not tried again.
func (c *Client) Watch(ctx context.Context, kinds ...string) iter.Seq2[WatchEvent, error] {
	return c.watch(ctx, false, kinds)
}

// WatchOn is Watch for who has had an answer of the server already: the first connection
// is tried again like any other, so that a server that goes away in between costs nothing.
func (c *Client) WatchOn(ctx context.Context, kinds ...string) iter.Seq2[WatchEvent, error] {
	return c.watch(ctx, true, kinds)
}

func (c *Client) watch(ctx context.Context, begun bool, kinds []string) iter.Seq2[WatchEvent, error] {
	return func(yield func(WatchEvent, error) bool) {
		stopped := false
		err := c.conn.Watch(ctx, begun, kinds, func(e WatchEvent) error {
			if stopped = !yield(e, nil); stopped {
				return errStopped
			}
			return nil
		})
		if !stopped { // whose context may have ended, too
			yield(WatchEvent{}, err)
		}
	}
}

// LocalChanges are those that operators make at a site while its root is away.
type LocalChanges struct{ group }

// List is those at the site, or at all where a root is asked, and what of them gave way to the
// root.
func (l LocalChanges) List(ctx context.Context) (LocalView, error) {
	return call(ctx, l.group, rest.ListLocalChanges, rest.None{})
}

// Drop takes the local changes of a service back, of all of the application where service is
// "".
func (l LocalChanges) Drop(ctx context.Context, app, service string) error {
	return callNone(ctx, l.group, rest.DropLocalChange, rest.DropIn{App: app, Service: service})
}

// Acknowledge forgets a conflict that somebody has looked at.
func (l LocalChanges) Acknowledge(ctx context.Context, id string) error {
	return callNone(ctx, l.group, rest.AcknowledgeConflict, rest.ConflictIn{ID: id})
}

// System is the root or cluster itself.
type System struct{ group }

// Status is the state of the tier that answers, and of what is below it.
func (s System) Status(ctx context.Context) (Status, error) {
	return call(ctx, s.group, rest.GetStatus, rest.None{})
}

// Version is those of the process that answers.
func (s System) Version(ctx context.Context) (Version, error) {
	return call(ctx, s.group, rest.GetVersion, rest.None{})
}

// Audit reads a page of the audit log.
func (s System) Audit(ctx context.Context, q AuditQuery) (AuditPage, error) {
	return call(ctx, s.group, rest.ReadAuditLog, rest.AuditIn{Since: q.Since.UTC(), User: q.User, Before: q.Before, Limit: max(0, q.Limit)})
}

// CA is who trusts which authority, and until when.
func (s System) CA(ctx context.Context) (CA, error) {
	return call(ctx, s.group, rest.GetCA, rest.None{})
}

// RotateCA replaces the root's authority, step by step.
func (s System) RotateCA(ctx context.Context, q CARotateRequest) (CA, error) {
	return call(ctx, s.group, rest.RotateCA, rest.CAIn{Body: q})
}

// Backup is an archive of what the server is at this moment, to be closed. It holds its keys,
// and the contents of objects where objects is true.
func (s System) Backup(ctx context.Context, objects bool) (io.ReadCloser, error) {
	return s.conn.Backup(ctx, objects)
}

// Recovery says how far what was restored from a backup is.
func (s System) Recovery(ctx context.Context) (Recovery, error) {
	return call(ctx, s.group, rest.GetRecovery, rest.None{})
}

// FinishRecovery gives up a peer that is still to be asked, or ends the recovery as a whole
// where peer is "".
func (s System) FinishRecovery(ctx context.Context, peer string) error {
	return callNone(ctx, s.group, rest.FinishRecovery, rest.RecoveryIn{Peer: peer})
}
