package root

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
	now := b.clock.Now()
	b.events.Add(time.Now(), tier, "system/root", "a backup is taken by "+rest.Caller(ctx))
	b.log.Info("a backup is taken", "by", rest.Caller(ctx))
	src := backup.Source{
		Manifest: backup.Manifest{Role: "root", Name: "root", Root: b.ca.ID(), Version: obs.Version(), Made: now},
		Dir:      b.opts.Dir, Store: b.store,
	}
	if objects {
		src.Contents = b.shelf
	}
	return backup.Write(ctx, w, src)
}
