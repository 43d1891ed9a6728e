package root

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
func (r *Root) Backup(ctx context.Context, w io.Writer, objects bool) error {
	now := r.clock.Now()
	r.EventRing.Note(time.Now(), event.RootBackup, "root", "a backup is taken by "+rest.Caller(ctx))
	src := backup.Source{
		Manifest: backup.Manifest{Role: "root", Name: "root", Root: r.ca.ID(), Version: obs.Version(), Made: now},
		Dir:      r.opts.Dir, Store: r.RecordStore,
	}
	if objects {
		src.Contents = r.objects
	}
	return backup.Write(ctx, w, src)
}
