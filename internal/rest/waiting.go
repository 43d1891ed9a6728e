package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// waiting runs a long poll that ends early when the server shuts down.
func waiting[T any](ctx context.Context, s *Server, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() {
		cancel()
		<-done
	}()
	go func() {
		defer close(done)
		select {
		case <-s.draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	v, err := f(ctx)
	select {
	case <-s.draining:
		if err != nil {
			return v, shuttingDown("the wait was ended")
		}
	default:
	}
	return v, err
}

// parseSince reads how long ago something begins; "" is at the beginning.
func parseSince(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := api.ParseDuration(text)
	if err != nil {
		return 0, wire.Problemf(http.StatusUnprocessableEntity, "invalid-request", "write for example since=10m", "the request is not valid", "query.since: %v", err)
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
		return 0, wire.Problemf(http.StatusUnprocessableEntity, "invalid-request", "write for example wait=20s", "the request is not valid", "query.wait: %v", err)
	}
	if d.Std() > maxWait {
		return 0, wire.Problemf(http.StatusUnprocessableEntity, "invalid-request", "ask again after each answer", "the request is not valid", "query.wait: %s is more than %s", text, maxWait)
	}
	return d.Std(), nil
}
