package logstore

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/logrecord"
)

// Read copies a store that nobody has open; nothing of it changes.
func Read(ctx context.Context, nc *nats.Conn, dir string, log *slog.Logger) (bus.Snapshot, error) {
	s := newStore(nc, dir, log)
	defer s.js.Close()
	state, err := s.openStream(ctx)
	if err != nil {
		return bus.Snapshot{}, fmt.Errorf("read a store: %w", err)
	}
	w := &writer{Store: s}
	timeline, err := w.load(ctx, state)
	if err != nil {
		return bus.Snapshot{}, fmt.Errorf("read a store: %w", err)
	}
	return s.m.Snapshot(timeline, w.rev), nil
}

// Write makes a store of a copy where there is none.
func Write(ctx context.Context, nc *nats.Conn, dir string, c bus.Snapshot, log *slog.Logger) error {
	s := newStore(nc, dir, log)
	defer s.js.Close()
	if _, err := s.openStream(ctx); err != nil {
		return fmt.Errorf("make a store of a copy: %w", err)
	}
	for b, err := range logrecord.Snapshot(c) {
		if err == nil {
			err = s.checkSpace(uint64(len(b)))
		}
		if err == nil {
			_, err = s.js.Append(logSubject, b, -1, ackTimeout+ackPerMiB)
		}
		if err != nil {
			return fmt.Errorf("make a store of a copy: %w", err)
		}
	}
	return atomicfile.Write(filepath.Join(dir, storeMarker), []byte(markerHead), 0o600)
}
