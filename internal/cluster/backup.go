package cluster

import (
	"context"
	"io"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/rest"
)

// Backup implements backend.Node.
func (c *Cluster) Backup(ctx context.Context, w io.Writer, objects bool) error {
	c.EventRing.Note(time.Now(), event.ClusterBackup, c.ClusterName, "a backup is taken by "+rest.Caller(ctx))
	src := backup.Source{
		Manifest: backup.Manifest{Role: "cluster", Name: c.ClusterName, Root: c.ca.RootID(), Version: obs.Version(),
			Made: c.clock.Now()},
		Dir: c.opts.Dir, Store: c.RecordStore,
	}
	if objects {
		src.Contents = c.shelf
	}
	return backup.Write(ctx, w, src)
}
