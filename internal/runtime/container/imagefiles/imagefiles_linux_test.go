package imagefiles

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"
)

// layersOf makes directories of layers, the uppermost first. "dir/" is a directory,
// "dir/!" an opaque one, "file=text" a file, "link->target" a link, "-name" a whiteout and
// "|name" a pipe.
func layersOf(t *testing.T, all ...string) []string {
	t.Helper()
	var dirs []string
	for _, layer := range all {
		dir := t.TempDir()
		for _, what := range strings.Fields(layer) {
			var err error
			at := func(name string) string {
				name = filepath.Join(dir, name)
				err = errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755))
				return name
			}
			if name, target, ok := strings.Cut(what, "->"); ok {
				err = os.Symlink(target, at(name))
			} else if name, text, ok := strings.Cut(what, "="); ok {
				err = os.WriteFile(at(name), []byte(text), 0o644)
			} else if name, ok := strings.CutSuffix(what, "/!"); ok {
				if err = os.MkdirAll(filepath.Join(dir, name), 0o755); err == nil {
					err = unix.Setxattr(filepath.Join(dir, name), "trusted.overlay.opaque", []byte("y"), 0)
				}
			} else if name, ok := strings.CutPrefix(what, "-"); ok {
				err = unix.Mknod(at(name), unix.S_IFCHR, 0)
			} else if name, ok := strings.CutPrefix(what, "|"); ok {
				err = unix.Mkfifo(at(name), 0o644)
			} else {
				err = os.MkdirAll(filepath.Join(dir, what), 0o755)
			}
			if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
				t.Skipf("%s cannot be made here: %v", what, err)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// Files of layers are what overlayfs shows where it can be asked, and what it is known to
// show where not.
func TestLayers(t *testing.T) {
	for name, x := range map[string]struct {
		layers []string
		want   string // in etc/passwd; "" that there is none
		err    error
	}{
		"one":                                {[]string{"etc/passwd=a"}, "a", nil},
		"the upper":                          {[]string{"etc/passwd=a", "etc/passwd=b"}, "a", nil},
		"the lower":                          {[]string{"etc/group=a", "var/", "etc/passwd=b"}, "b", nil},
		"none":                               {[]string{"etc/group=a", "var/"}, "", fs.ErrNotExist},
		"removed":                            {[]string{"-etc/passwd", "etc/passwd=b"}, "", fs.ErrNotExist},
		"its directory removed":              {[]string{"-etc", "etc/passwd=b"}, "", fs.ErrNotExist},
		"removed and made again":             {[]string{"etc/passwd=a", "-etc/passwd", "etc/passwd=b"}, "a", nil},
		"an opaque directory":                {[]string{"etc/!", "etc/passwd=b"}, "", fs.ErrNotExist},
		"an opaque directory with it":        {[]string{"etc/!  etc/passwd=a", "etc/passwd=b"}, "a", nil},
		"a directory that hides a link":      {[]string{"etc/", "etc->usr usr/passwd=b"}, "", fs.ErrNotExist},
		"a directory above a file":           {[]string{"etc/", "etc=x", "etc/passwd=b"}, "", fs.ErrNotExist},
		"a link of the upper":                {[]string{"etc->usr", "usr/passwd=b etc/passwd=c"}, "b", nil},
		"a link to a lower layer":            {[]string{"etc/passwd->../nix/store/passwd", "nix/store/passwd=b"}, "b", nil},
		"a link in a directory of both":      {[]string{"etc/group=a", "etc/passwd->real etc/real=b"}, "b", nil},
		"an absolute link":                   {[]string{"etc/passwd->/nix/passwd", "nix/passwd=b"}, "b", nil},
		"an absolute link of a directory":    {[]string{"etc->/nix", "nix/passwd->p nix/p=b"}, "b", nil},
		"a link beyond the root":             {[]string{"etc/passwd->../../../../nix/passwd nix/passwd=a"}, "a", nil},
		"a link through a linked directory":  {[]string{"a->b/c b/c/ b/x=right x=wrong etc/passwd->../a/../x"}, "right", nil},
		"a link to what was removed":         {[]string{"-nix etc/passwd->/nix/passwd", "nix/passwd=b"}, "", fs.ErrNotExist},
		"a link to itself":                   {[]string{"etc/passwd->passwd"}, "", syscall.ELOOP},
		"a directory":                        {[]string{"etc/passwd/"}, "", syscall.EISDIR},
		"a file on the way":                  {[]string{"etc=x"}, "", syscall.ENOTDIR},
		"a pipe, which would be waited upon": {[]string{"|etc/passwd"}, "", fs.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			dirs := layersOf(t, x.layers...)
			files, err := Open(dirs)
			if err != nil {
				t.Fatal(err)
			}
			defer files.Close()
			got, err := passwdOf(files)
			if got != x.want || !errors.Is(err, x.err) || (err == nil) != (x.err == nil) {
				t.Errorf("%q, %v; want %q, %v", got, err, x.want, x.err)
			}
			inLinux(t, dirs, x.want, x.err)
		})
	}
}

func passwdOf(files fs.FS) (string, error) {
	f, err := files.Open("etc/passwd")
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	return string(b), err
}

// inLinux asks overlayfs, and a process whose root that is.
func inLinux(t *testing.T, dirs []string, want string, wrong error) {
	t.Helper()
	if errors.Is(wrong, fs.ErrInvalid) {
		return // it would wait
	}
	if len(dirs) == 1 {
		dirs = append(dirs, t.TempDir())
	}
	at := t.TempDir()
	m := mount.Mount{Type: "overlay", Source: "overlay", Options: []string{"ro", "lowerdir=" + strings.Join(dirs, ":")}}
	if err := m.Mount(at); err != nil {
		t.Logf("overlayfs is not asked: %v", err)
		return
	}
	defer func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	}()
	dir, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	f, err := unix.Openat2(dir, "etc/passwd", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	got := ""
	if err == nil {
		b := make([]byte, 100)
		var n int
		n, err = unix.Read(f, b)
		got = string(b[:max(n, 0)])
		_ = unix.Close(f)
	}
	if got != want || (err == nil) != (wrong == nil) {
		t.Errorf("Linux: %q, %v; want %q, %v", got, err, want, wrong)
	}
}

func TestUsersOfImages(t *testing.T) {
	const passwd = "etc/passwd=root:x:0:0::/root:/bin/sh\nweb:x:1000:100::/:/bin/sh\nother:x:7:8::/:/bin/sh\n"
	const group = "etc/group=root:x:0:\nusers:x:100:\nweb:x:1000:web\naudio:x:29:web,other\nwheel:x:10:root,web\n"
	write := func(what ...string) fs.FS {
		dir := t.TempDir()
		for _, w := range what {
			name, text, _ := strings.Cut(w, "=")
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, "etc"), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		files, err := Open([]string{dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(files.Close)
		return files
	}
	full, bare := write(passwd, group), write()
	for _, x := range []struct {
		files    fs.FS
		wanted   string
		uid, gid uint32
		groups   []uint32
		err      string
	}{
		{full, "", 0, 0, []uint32{0, 10}, ""},
		{full, "web", 1000, 100, []uint32{100, 29, 10}, ""}, // its own group is none of the others
		{full, "1000", 1000, 100, []uint32{100, 29, 10}, ""},
		{full, "web:audio", 1000, 29, []uint32{29, 10}, ""},
		{full, "other:5", 7, 5, []uint32{5, 29}, ""},
		{full, "4000", 4000, 0, []uint32{0}, ""},
		{full, "4000:audio", 4000, 29, []uint32{29}, ""},
		{full, ":5", 0, 5, []uint32{5, 10}, ""},
		{full, "nobody", 0, 0, nil, "no users found"},
		{full, "web:nobody", 0, 0, nil, "no groups found"},
		{full, "web:audio:x", 0, 0, nil, "no groups found"},
		{full, "-1", 0, 0, nil, "is no number from 0 to 2147483647"},
		{full, "0:2147483648", 0, 0, nil, "is no number from 0 to 2147483647"},
		{full, "99999999999999999999", 0, 0, nil, "is no number from 0 to 2147483647"},
		{bare, "", 0, 0, []uint32{0}, ""},
		{bare, "5:6", 5, 6, []uint32{6}, ""},
		{bare, "web", 0, 0, nil, "file does not exist"},
	} {
		u, err := User(x.files, x.wanted)
		if x.err != "" {
			if err == nil || !strings.Contains(err.Error(), x.err) {
				t.Errorf("%q: %+v, %v", x.wanted, u, err)
			}
			continue
		}
		if err != nil || u.UID != x.uid || u.GID != x.gid || !slices.Equal(u.AdditionalGids, x.groups) {
			t.Errorf("%q: %+v, %v", x.wanted, u, err)
		}
	}
}
