package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/filecopy"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/session"
	"github.com/verge-edge/verge/internal/runtime/volume"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// openCopy makes a session that copies a file or directory from or to an instance: the files of a
// container as it sees them, and of any other instance its working directory and volumes.
// Standard error carries the result, as a filecopy.Summary.
func (x *Sessions) openCopy(s *execSession, q *rpc.CopyStart) (what string, err error) {
	in, err := x.o.Find(s.instance)
	if err != nil {
		return "", err
	}
	snap, err := in.Running()
	if err != nil {
		return "", err
	}
	if q.Path == "" || len(q.Path) > 4096 || strings.ContainsRune(q.Path, 0) {
		return "", fmt.Errorf("%w: %.100q is no path", state.ErrBadQuery, q.Path)
	}
	o := session.Options{Stdin: q.Into, Exec: func(ctx context.Context, files runtime.Exec) (wire.Exit, error) {
		if q.Into {
			// What a copy reports as written must be in a volume that is packed later.
			into, leave, err := in.Enter(ctx, &snap)
			if err != nil {
				return wire.Exit{}, err
			}
			defer leave()
			ctx = into
		}
		// The end of the session releases readers and writers of a pipe.
		defer context.AfterFunc(ctx, func() {
			_ = files.Stdout.SetWriteDeadline(time.Unix(1, 0))
			if files.Stdin != nil {
				_ = files.Stdin.SetReadDeadline(time.Unix(1, 0))
			}
		})()
		var sum filecopy.Summary
		err := look(in, &snap, q.Path, func(root *os.Root, name string) (err error) {
			if q.Into {
				target := filecopy.Target{
					Root: root, Path: name, Name: q.Name, Within: strings.HasSuffix(q.Path, "/"), Room: state.RoomFor,
					Sync: volume.Sync,
				}
				if u := snap.Task.Handle().User; u != nil {
					target.Owner = &filecopy.Owner{UID: int(u.UID), GID: int(u.GID)}
				}
				sum, err = filecopy.Unpack(ctx, files.Stdin, target)
				if cause := context.Cause(ctx); err != nil && cause != nil {
					return cause
				}
				return err
			}
			sum, err = filecopy.Pack(ctx, files.Stdout, root, name)
			return err
		})
		if err != nil {
			return wire.Exit{}, err
		}
		b, err := json.Marshal(sum)
		if err == nil {
			_, err = files.Stderr.Write(b)
		}
		return wire.Exit{}, err
	}}
	what = "copy from " + q.Path
	if q.Into {
		what = "copy to " + q.Path
	}
	return what, x.run(s, o, func(context.Context) {})
}

// look calls f with a root that nothing leads out of, and the name of path in it.
func look(in Instance, s *state.Snapshot, name string, f func(root *os.Root, name string) error) error {
	if housed, ok := s.Task.(runtime.Housed); ok {
		return housed.Files(func(root *os.Root, dir string) error {
			if !path.IsAbs(name) {
				name = path.Join(dir, name)
			}
			at, err := filecopy.Resolve(root, name)
			if err != nil {
				return err
			}
			switch first, _, _ := strings.Cut(at, "/"); first {
			case ".", "proc", "sys", "dev":
				return fmt.Errorf("%s of a container is not copied, choose something below another directory",
					path.Clean("/"+at))
			}
			return f(root, at)
		})
	}
	dir, rest, err := tree(in, s, name)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("the instance has no files")
	}
	if err != nil {
		return fmt.Errorf("its working directory: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	return f(root, rest)
}

// tree is the directory of the machine that a path of an instance without a file
// system of its own is in, its working directory or a volume, and the rest of the
// path.
func tree(in Instance, s *state.Snapshot, name string) (dir, rest string, err error) {
	work := in.Layout().Work()
	if path.IsAbs(name) {
		clean := path.Clean(name)
		if !state.Within(clean, work) {
			return "", "", wire.Problemf(http.StatusForbidden, "outside", "write a path from the working directory on",
				"only the instance's own files are copied",
				"%s is neither in its working directory nor in a volume", clean)
		}
		name = strings.TrimPrefix(strings.TrimPrefix(clean, work), "/")
	}
	name = path.Clean(name)
	if name == ".." || strings.HasPrefix(name, "../") {
		return "", "", wire.Problemf(http.StatusForbidden, "outside", "write a path from the working directory on",
			"only the instance's own files are copied",
			"%s leads out of its working directory", name)
	}
	if s.Order.Spec == nil {
		return work, name, nil
	}
	volumes, err := in.Volumes(&s.Order)
	if err != nil {
		return "", "", err
	}
	dir, rest = work, name
	longest := -1
	for i, v := range volumes {
		at := path.Clean(v.Path)
		if name != at && !strings.HasPrefix(name, at+"/") || len(at) <= longest {
			continue
		}
		// Where a volume that is mounted for it is, package workdir says.
		if longest, dir = len(at), v.Dir; v.Tmpfs > 0 || v.ReadOnly {
			dir = filepath.Join(in.Layout().Mounts(), strconv.Itoa(i))
		}
		rest = path.Join(".", strings.TrimPrefix(strings.TrimPrefix(name, at), "/"))
	}
	return dir, rest, nil
}
