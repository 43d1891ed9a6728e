package wal_test

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/verge-edge/verge/internal/atomicfile/powertest"
	"github.com/verge-edge/verge/internal/quorum/wal"
)

func openDir(t testing.TB, path string) *wal.Dir {
	t.Helper()
	d, err := wal.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// use has a log live: entries in several segments, snapshots of its own and one that is
// received. It calls acknowledged with the last index after each step, and ends with the first
// error.
func use(d wal.Disk, acknowledged func(last uint64)) error {
	l, _, err := wal.Create(d, self, snapshot(1, 1), content(1), small)
	if err != nil {
		return err
	}
	defer l.Close()
	save := func(from, to uint64) error {
		for i := from; i <= to; i++ {
			if err := l.Save(hard(1, 1, i-1), []*raftpb.Entry{entry(1, i, 900)}); err != nil {
				return err
			}
			acknowledged(i)
		}
		return nil
	}
	if err := save(2, 20); err != nil {
		return err
	}
	for _, i := range []uint64{12, 19} {
		if _, err := wal.WriteSnapshot(d, snapshot(1, i), content(i)); err != nil {
			return err
		}
		if err := l.Took(snapshot(1, i)); err != nil {
			return err
		}
	}
	if _, err := wal.ReceiveSnapshot(d, snapshot(1, 50), content(50)); err != nil {
		return err
	}
	if err := l.Install(hard(1, 1, 50), snapshot(1, 50)); err != nil {
		return err
	}
	acknowledged(50)
	return save(51, 70)
}

func TestDir(t *testing.T) {
	d := openDir(t, filepath.Join(t.TempDir(), "log"))
	last := uint64(0)
	if err := use(d, func(i uint64) { last = i }); err != nil {
		t.Fatal(err)
	}
	l, got, err := wal.Open(d, small)
	if err != nil || last != 70 || len(got.State.Entries) != 20 || got.State.HardState.GetCommit() != 69 {
		t.Fatalf("%+v, %v", got, err)
	}
	defer l.Close()
	r, err := wal.OpenSnapshot(d, snapshot(1, 50))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, bytes.Repeat([]byte{50}, 3000)) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// On a file system that forgets everything that was not synced, what was acknowledged is there
// after a power cut before each sync.
func TestPowerCutOfAFileSystem(t *testing.T) {
	mount := t.TempDir()
	disk := powertest.New(t, mount)
	for n := 1; ; n++ {
		syncs, acked := 0, uint64(0)
		disk.OnSync(func() {
			if syncs++; syncs == n {
				disk.Cut()
			}
		})
		path := filepath.Join(mount, strings.Repeat("x", n))
		var err error
		d, err := wal.OpenDir(path)
		if err == nil {
			err = use(d, func(i uint64) { acked = i })
		}
		if err == nil {
			return // it has fewer syncs than that
		}
		disk.OnSync(nil)
		disk.Return(t)
		l, got, err := wal.Open(openDir(t, path), small)
		if errors.Is(err, wal.ErrNone) && acked == 0 {
			continue
		}
		if err != nil {
			t.Fatalf("cut at sync %d: %v", n, err)
		}
		last := got.State.Snapshot.GetMetadata().GetIndex() + uint64(len(got.State.Entries))
		if last < acked {
			t.Errorf("cut at sync %d: the log ends at %d, and %d was acknowledged", n, last, acked)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
