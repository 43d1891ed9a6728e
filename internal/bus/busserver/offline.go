package busserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busconn"
	"github.com/verge-edge/verge/internal/bus/credentials"
	"github.com/verge-edge/verge/internal/bus/logstore"
)

// offline starts a server that does not listen, for the log of one that does not run.
func offline(ctx context.Context, dir, name string, log *slog.Logger) (*embedded, *busconn.Conn, error) {
	e, err := start(ctx, dir, baseOptions("verge-"+name, name, dir), noPeer, log, credentials.AccountSystem, credentials.AccountStore)
	if err != nil {
		return nil, nil, err
	}
	c, err := e.connect(credentials.AccountStore, false)
	if err != nil {
		e.close()
		return nil, nil, err
	}
	return e, c, nil
}

// mustHave says that there is no store in dir.
func mustHave(dir string) error {
	there, err := logstore.Has(dir)
	if err == nil && !there {
		err = fmt.Errorf("there is none in %s", dir)
	}
	return err
}

// ReadStore copies the store of a server that does not run; nothing of it changes.
func ReadStore(ctx context.Context, dir string, log *slog.Logger) (bus.Snapshot, error) {
	if err := mustHave(dir); err != nil {
		return bus.Snapshot{}, fmt.Errorf("read a store: %w", err)
	}
	e, c, err := offline(ctx, dir, "restore", log)
	if err != nil {
		return bus.Snapshot{}, fmt.Errorf("read a store: %w", err)
	}
	defer e.close()
	return logstore.Read(ctx, c.NC(), dir, log)
}

// Edit opens the store of a server that does not run, for fn. As with each start, a new era
// of the store begins.
func Edit(ctx context.Context, dir string, log *slog.Logger, fn func(bus.Store) error) error {
	if err := mustHave(dir); err != nil {
		return fmt.Errorf("open a store: %w", err)
	}
	e, c, err := offline(ctx, dir, "edit", log)
	if err != nil {
		return fmt.Errorf("open a store: %w", err)
	}
	defer e.close()
	s, err := logstore.Open(ctx, c.NC(), dir, log)
	if err != nil {
		return err
	}
	defer s.Close()
	return fn(s)
}

// WriteSnapshot makes the store of a server that does not run of a copy: dir is as
// RootOptions.Dir or ClusterOptions.Dir, with the keys in it that belong to the
// copy, and without a store. What it leaves after an error must be removed.
func WriteSnapshot(ctx context.Context, dir string, c bus.Snapshot, log *slog.Logger) (err error) {
	if there, err := logstore.Has(dir); err != nil || there {
		return errors.Join(fmt.Errorf("there is a store in %s already", dir), err)
	}
	e, conn, err := offline(ctx, dir, "restore", log)
	if err != nil {
		return fmt.Errorf("make a store of a copy: %w", err)
	}
	defer e.close()
	return logstore.Write(ctx, conn.NC(), dir, c, log)
}
