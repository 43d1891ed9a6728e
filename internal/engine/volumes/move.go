package volumes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/runtime/volume"
	"github.com/verge-edge/verge/internal/wire"
)

// ObjectStore is where volumes are put while they are moved: the object store of the
// cluster, which every worker reaches by a connection of its own.
type ObjectStore interface {
	Get(ctx context.Context, namespace, name, have string) (objects.Got, error)
	Put(ctx context.Context, in rest.ObjectUpload) (apiv1.ObjectView, error)
}

const (
	// ArrivingDir holds volumes until all of them is there and was compared.
	ArrivingDir = "volumes.arriving"
	// volumeType is the media type of a packed volume.
	volumeType = "application/x-tar"
)

// Do does what an order asks for of the volumes of its instance, which is stopped: one
// volume after the other.
func (s *Store) Do(ctx context.Context, o *wire.Order) *wire.VolumeReport {
	w := o.Volumes
	out := &wire.VolumeReport{Key: w.Key, Do: w.Do}
	for _, v := range w.Volumes {
		ref := wire.VolumeRef{Namespace: wire.OrderNamespace(o), Instance: o.ID, Name: v.Name}
		err := Check(ref)
		switch {
		case err != nil:
			err = volume.Refused{Err: err}
		case w.Do == wire.VolumePack:
			v, err = s.pack(ctx, ref, v)
		case w.Do == wire.VolumeUnpack:
			err = s.unpack(ctx, ref, v)
		case w.Do == wire.VolumeRestore:
			err = s.restore(ctx, ref, v)
		default:
			err = volume.Refusedf("this engine does not know how to %q it", w.Do)
		}
		if err != nil {
			out.Why, out.Volumes, out.Final = fmt.Sprintf("volume %s: %v", v.Name, err), nil, isFinal(err)
			return out
		}
		s.o.Log.Info("a volume was "+w.Do+"ed", "instance", o.ID, "volume", ref.String(), "bytes", v.Size, "digest",
			v.Digest)
		out.Volumes = append(out.Volumes, v)
	}
	out.Done = true
	return out
}

// isFinal reports whether work on volumes that failed would fail again: because of their content,
// or because the object store refuses it. A store that is busy, or has no room at the moment (409
// too-many), takes it later: objects of other moves are removed when they end.
func isFinal(err error) bool {
	var p *wire.Problem
	if errors.As(err, &p) && !p.MayPass() {
		return true
	}
	return errors.As(err, &volume.Refused{})
}

func (s *Store) dir(r wire.VolumeRef) string {
	return filepath.Join(s.o.Dir, Dir, r.Namespace, r.Instance, r.Name)
}

// pack puts a volume into the object store. What is there afterwards has the hash
// that was computed here.
func (s *Store) pack(ctx context.Context, ref wire.VolumeRef, v wire.VolumeObject) (wire.VolumeObject, error) {
	dir := s.dir(ref)
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil { // it may never have been started
		return v, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read, write := io.Pipe()
	sum := sha256.New()
	var n volume.Counts
	packed := make(chan error, 1)
	go func() {
		var err error
		n, err = volume.Pack(ctx, io.MultiWriter(write, sum), dir)
		_ = write.CloseWithError(err) // always nil
		packed <- err
	}()
	view, err := s.o.Objects.Put(ctx,
		rest.ObjectUpload{Namespace: ref.Namespace, Name: v.Object, Type: volumeType, Size: -1, Body: read})
	_ = read.Close() // releases the packer, if it was not read to its end
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		return v, perr
	}
	if err != nil {
		return v, fmt.Errorf("its cluster does not take it: %w", err)
	}
	v.Digest, v.Size, v.Files = digestOf(sum), view.Size, n.Files
	v.Left, v.Examples = n.Left, n.Examples
	if strings.TrimPrefix(view.Digest, "sha256:") != v.Digest {
		return v, fmt.Errorf("what its cluster has of it has the digest %s, and not %s", view.Digest, v.Digest)
	}
	return v, nil
}

// unpack makes a volume of an object, beside the others, and puts it in its place
// when what is on the disk has the hash of what was packed.
func (s *Store) unpack(ctx context.Context, ref wire.VolumeRef, v wire.VolumeObject) error {
	dir := s.dir(ref)
	if _, err := os.Lstat(dir); err == nil {
		has, err := digestOfDir(ctx, dir)
		if err != nil {
			return err
		}
		if has != v.Digest {
			return fmt.Errorf("this worker has another volume of that name already: verge volume rm CLUSTER/%s/%s "+
				"removes it, if nobody needs what is in it, once the move is cancelled (verge volume move "+
				"--cancel); then move it again", s.o.Worker, ref)
		}
		return nil // an earlier engine has done it
	}
	return s.arrive(ctx, ref, v, os.Rename)
}

// restore makes a volume what an object says, in the place of what is there, which
// stays until then.
func (s *Store) restore(ctx context.Context, ref wire.VolumeRef, v wire.VolumeObject) error {
	if err := atomicfile.MkdirAll(s.dir(ref), 0o700); err != nil {
		return err
	}
	return s.arrive(ctx, ref, v, swap)
}

// arrive makes a volume of an object beside the others; put then puts it in its place.
// What is left beside them is removed.
func (s *Store) arrive(ctx context.Context, ref wire.VolumeRef, v wire.VolumeObject,
	put func(from, to string) error) error {
	dir := s.dir(ref)
	aside := filepath.Join(s.o.Dir, ArrivingDir, ref.Namespace+"."+ref.Instance+"."+ref.Name)
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	err := s.receive(ctx, ref, v, aside)
	if err == nil {
		err = atomicfile.MkdirAll(filepath.Dir(dir), 0o700)
	}
	if err == nil {
		err = put(aside, dir)
	}
	if err == nil {
		err = atomicfile.SyncDir(filepath.Dir(dir))
	}
	return errors.Join(err, os.RemoveAll(aside))
}

// receive unpacks an object into a directory and compares both with what was packed.
func (s *Store) receive(ctx context.Context, ref wire.VolumeRef, v wire.VolumeObject, dir string) error {
	got, err := s.o.Objects.Get(ctx, ref.Namespace, v.Object, "")
	if err != nil {
		return fmt.Errorf("its cluster does not give it: %w", err)
	}
	defer got.Body.Close() //nolint:errcheck // only read
	if v.Digest == "" {    // a snapshot, of which nobody here knows more
		v.Digest = strings.TrimPrefix(got.View.Digest, "sha256:")
	}
	sum := sha256.New()
	all := io.TeeReader(got.Body, sum)
	err = volume.Unpack(ctx, all, dir, func() (int64, error) { return state.RoomAt(dir) })
	if err == nil {
		_, err = io.Copy(io.Discard, all) // what is after the end of an archive
	}
	if err != nil {
		return err
	}
	if has := digestOf(sum); has != v.Digest {
		return volume.Refusedf("what came has the digest %s, and not %s", has, v.Digest)
	}
	has, err := digestOfDir(ctx, dir)
	if err == nil && has != v.Digest {
		err = volume.Refusedf("what is on the disk now has the digest %s, and not %s: its file system cannot hold "+
			"all of it as it was", has, v.Digest)
	}
	return err
}

func digestOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

func digestOfDir(ctx context.Context, dir string) (string, error) {
	sum := sha256.New()
	_, err := volume.Pack(ctx, sum, dir)
	return digestOf(sum), err
}

// ClearArriving removes what an engine that was killed was about to receive.
func (s *Store) ClearArriving() error {
	err := os.RemoveAll(filepath.Join(s.o.Dir, ArrivingDir))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}
