package cluster

import (
	"context"
	"io"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/rest"
)

// Backup implements rest.Backend.
func (b backend) Backup(ctx context.Context, w io.Writer, objects bool) error {
	b.events.Add(time.Now(), b.m.Tier(), "cluster/"+b.name, "a backup is taken by "+rest.Caller(ctx))
	b.log.Info("a backup is taken", "by", rest.Caller(ctx))
	src := backup.Source{
		Manifest: backup.Manifest{Role: "cluster", Name: b.name, Root: b.ca.RootID(), Version: obs.Version(), Made: b.clock.Now()},
		Dir:      b.opts.Dir, Store: b.store,
	}
	if objects {
		src.Contents = b.shelf
	}
	return backup.Write(ctx, w, src)
}
