package repair

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/cluster"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/root"
	"github.com/verge-edge/verge/internal/wire"
)

// role is a kind of data directory that has a store.
type role struct {
	name  string
	lost  func([]bus.Entry) []records.Lost
	kinds func() []records.Kind
}

// roles by the file that only they have.
var roles = map[string]role{
	"authority.pem":      {"root", root.Lost, root.Kinds},
	"cluster-ca-key.pem": {"cluster", cluster.Lost, cluster.Kinds},
}

// roleOf is what a data directory is of.
func roleOf(dir string) (role, error) {
	for file, r := range roles {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return r, nil
		}
	}
	return role{}, wire.Problemf(0, "no-store",
		"give --data-dir the data directory of a root or a cluster, and run it as the user whose it is",
		"there is no store to look into", "%s is not the data directory of a root or a cluster, or cannot be read", dir)
}

// stopped words the error of a store that cannot be opened.
func stopped(dir string, r role, err error) error {
	if errors.Is(err, atomicfile.ErrLocked) {
		return wire.Problemf(0, "role-running", "stop the "+r.name+
			" first: instances keep running; verge status names the records while it runs",
			"the store is in use", "a process works in %s", dir)
	}
	return fmt.Errorf("%s: %w", dir, err)
}

func storeDir(dir string) string { return filepath.Join(dir, backup.StoreDir) }

// List are the records of the store in a data directory that cannot be read, those first
// that matter most. Nothing is changed.
func List(ctx context.Context, dir string, log *slog.Logger) ([]cli.LostRecord, error) {
	r, err := roleOf(dir)
	if err != nil {
		return nil, err
	}
	if err := owned(dir); err != nil {
		return nil, err
	}
	snap, err := busserver.ReadStore(ctx, storeDir(dir), log)
	if err != nil {
		return nil, stopped(dir, r, err)
	}
	out := []cli.LostRecord{}
	for _, l := range r.lost(snap.List("")) {
		out = append(out, view(l))
	}
	return out, nil
}

var fateNames = map[records.Fate]string{records.Stops: "does not start", records.Holds: "decides nothing",
	records.Aside: "goes on without", records.Again: "makes it anew"}

func view(l records.Lost) cli.LostRecord {
	return cli.LostRecord{
		Key: l.Key, Role: fateNames[l.Fate], Why: fmt.Sprintf("%.200v", l.Err), Drop: l.Kind.Drop,
		Security: l.Kind.Security,
		Confirm:  l.Fate <= records.Holds || l.Kind.Security, Bytes: len(l.Entry.Value), Revision: l.Entry.Rev,
		Value: l.Entry.Value,
	}
}

// find is the record of a key among those that cannot be read.
func find(list []records.Lost, all []bus.Entry, key string) (records.Lost, error) {
	if i := slices.IndexFunc(list, func(l records.Lost) bool { return l.Key == key }); i >= 0 {
		return list[i], nil
	}
	why := "there is no record of that key"
	if slices.ContainsFunc(all, func(e bus.Entry) bool { return e.Key == key }) {
		why = "the record can be read: it is changed by the commands that are for what it is about"
	}
	return records.Lost{}, wire.Problemf(0, "no-such-record", "verge records ls --data-dir DIR",
		"no such record is dropped", "%.100q: %s", key, why)
}

// Drop drops a record that cannot be read; what it was is in a file then, whose path is
// returned.
func Drop(ctx context.Context, dir string, q cli.DropRecord, log *slog.Logger) (path string, err error) {
	r, err := roleOf(dir)
	if err == nil {
		err = owned(dir)
	}
	if err != nil {
		return "", err
	}
	return path, r.edit(ctx, dir, log, func(store bus.Store) error {
		all, err := store.List(ctx, "")
		if err != nil {
			return err
		}
		l, err := find(r.lost(all), all, q.Key)
		if err != nil {
			return err
		}
		if err := allowed(&l, q); err != nil {
			return err
		}
		ops, err := dropping(&l, all, q.Now)
		if err != nil {
			return err
		}
		path, err = save(dir, saved{V: 1, Role: r.name, Key: l.Key, Revision: l.Entry.Rev, At: q.Now, Who: q.Who,
			Why: fmt.Sprintf("%.200v", l.Err), Value: l.Entry.Value})
		if err != nil {
			return fmt.Errorf("nothing was dropped: saving the record: %w", err)
		}
		return r.commit(ctx, store, q.Now,
			apiv1.AuditEntry{Who: q.Who, What: "drop-record", On: "record/" + l.Key, Result: "begun",
				Detail: "saved as " + path}, ops)
	})
}

// allowed says what is missing for a record to be dropped; nil for nothing.
func allowed(l *records.Lost, q cli.DropRecord) error {
	switch {
	case l.Kind.Security && !q.Security:
		return wire.Problemf(0, "security-record",
			fmt.Sprintf("restore a backup of before (verge restore), or, if that must be: verge records drop %s "+
				"--confirm %s --security", l.Key, l.Key),
			"nothing was dropped: security hangs on this record", "if it is dropped, %s", l.Kind.Drop)
	case (l.Fate <= records.Holds || l.Kind.Security) && q.Confirm != l.Key:
		return wire.Problemf(0, "not-confirmed",
			fmt.Sprintf("restore a backup of before (verge restore), or: verge records drop %s --confirm %s", l.Key,
				l.Key),
			"nothing was dropped: say the key once more", "if it is dropped, %s", l.Kind.Drop)
	case records.Newer(l.Err) && !q.Newer:
		return wire.Problemf(0, "newer-record",
			"start the newer program again, which can read it; or, to go back for good, add --newer",
			"nothing was dropped: the record is whole", "%.200v", l.Err)
	}
	return nil
}

// dropping are the ops that drop a record.
func dropping(l *records.Lost, all []bus.Entry, now time.Time) ([]bus.Op, error) {
	op := bus.Op{Key: l.Key, Delete: true, If: &l.Entry.Rev}
	if l.Kind.Instead != nil {
		value, err := l.Kind.Instead(now)
		if err != nil {
			return nil, err
		}
		op = bus.Op{Key: l.Key, Value: value, If: &l.Entry.Rev}
	}
	ops := []bus.Op{op}
	for _, key := range l.Kind.With {
		ops = append(ops, bus.Del(key))
	}
	if !l.Kind.Ask {
		return ops, nil
	}
	mark := backup.Mark{V: wire.Version, At: now.Round(0), Made: now.Round(0), Dropped: []string{l.Key}}
	if i := slices.IndexFunc(all, func(e bus.Entry) bool { return e.Key == backup.MarkKey }); i >= 0 {
		var old backup.Mark
		if err := records.Load(all[i], &old); err != nil {
			return nil, wire.Problemf(0, "mark-unreadable", "drop that one first: verge records drop "+backup.MarkKey,
				"nothing was dropped", "record %s cannot be read either, which says who has been asked what they hold",
				backup.MarkKey)
		}
		if len(old.Dropped) == 0 { // a restore, whose recovery asks for more
			mark.Made, mark.Dropped, mark.Ahead = old.Made, nil, old.Ahead
		} else {
			mark.Dropped = append(slices.Clone(old.Dropped), l.Key)
		}
	}
	value, err := json.Marshal(mark)
	if err != nil {
		return nil, err
	}
	return append(ops, bus.Put(backup.MarkKey, value)), nil
}

// PutBack stores again what was dropped, as it was.
func PutBack(ctx context.Context, dir, file string, q cli.DropRecord, log *slog.Logger) (key string, err error) {
	r, err := roleOf(dir)
	if err == nil {
		err = owned(dir)
	}
	if err != nil {
		return "", err
	}
	var s saved
	if _, err := savedKind.Read(file, &s); err != nil {
		return "", fmt.Errorf("nothing was put back: %w", err)
	}
	if s.Role != r.name || s.Key == "" {
		return "", wire.Problemf(0, "other-role", "give --data-dir that of a "+cmp.Or(s.Role, "root"),
			"nothing was put back", "%s is of a %.20q, and %s of a %s", file, s.Role, dir, r.name)
	}
	err = r.edit(ctx, dir, log, func(store bus.Store) error {
		var absent uint64
		if _, err := store.Get(ctx, s.Key); !errors.Is(err, bus.ErrNotFound) {
			return errors.Join(wire.Problemf(0, "record-there", "verge records ls", "nothing was put back",
				"there is a record %s again", s.Key), err)
		}
		entry := apiv1.AuditEntry{Who: q.Who, What: "put-back-record", On: "record/" + s.Key, Result: "begun",
			Detail: "from " + file}
		return r.commit(ctx, store, q.Now, entry, []bus.Op{{Key: s.Key, Value: s.Value, If: &absent}})
	})
	return s.Key, err
}

// edit opens the store of the role for fn.
func (r role) edit(ctx context.Context, dir string, log *slog.Logger, fn func(bus.Store) error) error {
	var done error
	err := busserver.Edit(ctx, storeDir(dir), log, func(s bus.Store) error {
		done = fn(s)
		return done
	})
	if done != nil {
		return done
	}
	if err != nil {
		return stopped(dir, r, err)
	}
	return nil
}

// commit notes in the audit log what is about to be done, and does it.
func (r role) commit(ctx context.Context, store bus.Store, now time.Time, e apiv1.AuditEntry, ops []bus.Op) error {
	log := &people.Log{Store: store, Now: func() time.Time { return now }}
	if err := log.Record(ctx, e); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if _, err := store.Commit(ctx, ops...); err != nil {
		return fmt.Errorf("nothing was changed, or it is not known (verge records ls): %w", err)
	}
	return nil
}
