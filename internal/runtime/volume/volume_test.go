package volume

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"
)

func fill(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "a/deep/er"), 0o750))
	must(os.Mkdir(filepath.Join(dir, "closed"), 0o500))
	must(os.WriteFile(filepath.Join(dir, "a/one"), bytes.Repeat([]byte("x"), 300_000), 0o640))
	must(os.WriteFile(filepath.Join(dir, "empty"), nil, 0o400))
	must(os.WriteFile(filepath.Join(dir, strings.Repeat("long", 50)), []byte("long"), 0o600))
	must(os.Link(filepath.Join(dir, "a/one"), filepath.Join(dir, "z-linked")))
	must(os.Symlink("../../outside", filepath.Join(dir, "a/out")))
	must(os.Symlink("/etc/passwd", filepath.Join(dir, "abs")))
	must(os.Chmod(filepath.Join(dir, "a/one"), 0o640|os.ModeSetgid))
	old := time.Unix(1_000_000_000, 123456789)
	must(os.Chtimes(filepath.Join(dir, "a/one"), old, old))
	if os.Geteuid() == 0 {
		must(os.Lchown(filepath.Join(dir, "empty"), 1234, 4321))
		must(os.Lchown(filepath.Join(dir, "abs"), 1234, 4321))
		must(os.Lchown(filepath.Join(dir, "a"), 1234, 4321))
	}
	must(os.Chtimes(filepath.Join(dir, "a"), old, old))
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "a", "s"))
	must(err)
	t.Cleanup(func() { _ = ln.Close() })
}

func packed(t *testing.T, dir string) ([]byte, Counts) {
	t.Helper()
	var b bytes.Buffer
	n, err := Pack(t.Context(), &b, dir)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), n
}

func plenty() (int64, error) { return 1 << 30, nil }

// What is unpacked packs to the same bytes.
func TestThereAndBack(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	fill(t, from)
	stream, n := packed(t, from)
	if n.Files != 6 || n.Bytes != 300_004 {
		t.Errorf("%+v", n)
	}
	if err := Unpack(t.Context(), bytes.NewReader(stream), to, plenty); err != nil {
		t.Fatal(err)
	}
	again, _ := packed(t, to)
	if sha256.Sum256(stream) != sha256.Sum256(again) {
		t.Errorf("another hash: %d and %d bytes", len(stream), len(again))
	}
	one, err := os.Stat(filepath.Join(to, "a/one"))
	if err != nil {
		t.Fatal(err)
	}
	if z, err := os.Stat(filepath.Join(to, "z-linked")); err != nil || !os.SameFile(one, z) || one.Mode() != 0o640|os.ModeSetgid || one.ModTime().Unix() != 1_000_000_000 {
		t.Errorf("%v %v, %v", one.Mode(), one.ModTime(), err)
	}
	// Any difference is another hash.
	for what, change := range map[string]func() error{
		"content": func() error {
			return os.WriteFile(filepath.Join(to, "a/one"), bytes.Repeat([]byte("y"), 300_000), 0o640)
		},
		"mode": func() error { return os.Chmod(filepath.Join(to, "empty"), 0o600) },
		"link": func() error { return os.Rename(filepath.Join(to, "abs"), filepath.Join(to, "abs2")) },
	} {
		before, _ := packed(t, to)
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if after, _ := packed(t, to); bytes.Equal(before, after) {
			t.Errorf("%s: the same", what)
		}
	}
}

// A stream that leads out of the directory, or is cut off, is an error and writes
// nothing outside.
func TestUnpackRefuses(t *testing.T) {
	base := t.TempDir()
	make := func(headers ...*tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Mode, h.Uid, h.Gid = 0o600, os.Geteuid(), os.Getegid()
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte("data")[:h.Size]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	good := t.TempDir()
	fill(t, good)
	whole, _ := packed(t, good)
	for name, stream := range map[string][]byte{
		"above":        make(&tar.Header{Name: "../x", Typeflag: tar.TypeReg, Size: 4}),
		"absolute":     make(&tar.Header{Name: "/tmp/x-of-verge", Typeflag: tar.TypeReg, Size: 4}),
		"by a link":    make(&tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}, &tar.Header{Name: "l/x", Typeflag: tar.TypeReg, Size: 4}),
		"another's":    make(&tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "../secret"}),
		"a device":     make(&tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}),
		"cut off":      whole[:len(whole)/2],
		"something":    []byte(strings.Repeat("no archive ", 100)),
		"a file twice": make(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 4}, &tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 4}),
	} {
		if err := os.WriteFile(filepath.Join(base, "secret"), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(base, "into")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := Unpack(t.Context(), bytes.NewReader(stream), dir, plenty); !errors.As(err, &Refused{}) {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(base); err != nil || len(left) != 1 {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
}

// An archive of a few bytes does not fill a disk, whatever it says of its sizes.
func TestUnpackIsBounded(t *testing.T) {
	record := func(key, value string) string { // "LENGTH key=value\n", with its own length
		n := len(key) + len(value) + 3
		for n != len(key)+len(value)+3+len(strconv.Itoa(n)) {
			n = len(key) + len(value) + 3 + len(strconv.Itoa(n))
		}
		return strconv.Itoa(n) + " " + key + "=" + value + "\n"
	}
	const zeros = "1000000"
	records := record("GNU.sparse.major", "0") + record("GNU.sparse.minor", "1") + record("GNU.sparse.size", zeros) +
		record("GNU.sparse.numblocks", "1") + record("GNU.sparse.map", zeros+",0")
	var b bytes.Buffer
	block := func(kind byte, name, content string) {
		t.Helper()
		var one bytes.Buffer
		w := tar.NewWriter(&one)
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Uid: os.Geteuid(), Gid: os.Getegid(), Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		head := one.Bytes()[:512]
		head[156] = kind
		copy(head[148:156], "        ")
		sum := 0
		for _, c := range head {
			sum += int(c)
		}
		copy(head[148:156], fmt.Sprintf("%06o\x00 ", sum))
		b.Write(head)
		b.WriteString(content + strings.Repeat("\x00", (512-len(content)%512)%512))
	}
	block('x', "records", records)
	block('0', "big", "")
	b.Write(make([]byte, 1024))
	in := tar.NewReader(bytes.NewReader(b.Bytes()))
	if h, err := in.Next(); err != nil || h.Typeflag != tar.TypeReg || strconv.FormatInt(h.Size, 10) != zeros {
		t.Fatalf("%+v, %v", h, err)
	}
	dir := t.TempDir()
	if err := Unpack(t.Context(), &b, dir, plenty); !errors.As(err, &Refused{}) || !strings.Contains(err.Error(), "big: it is sparse") {
		t.Error(err)
	}
	// However a file came to its size, no more is written than was read.
	var to bytes.Buffer
	c := &contents{to: &to, from: &source{n: 5}}
	if _, err := c.Write([]byte("1234")); err != nil {
		t.Error(err)
	}
	if _, err := c.Write([]byte("56")); err == nil || to.Len() != 4 {
		t.Errorf("%v, %d bytes", err, to.Len())
	}
	// Nor more than there is room for.
	from := t.TempDir()
	fill(t, from)
	stream, _ := packed(t, from)
	err := Unpack(t.Context(), bytes.NewReader(stream), dir, func() (int64, error) { return 299_999, nil })
	if !errors.As(err, &Refused{}) || !strings.Contains(err.Error(), "a/one: it has 300000 bytes, and there is room for 299999") {
		t.Error(err)
	}
	if left, err := os.Stat(filepath.Join(dir, "a/one")); err == nil {
		t.Errorf("%s has %d bytes", left.Name(), left.Size())
	}
	// What broke off on its way may come the next time.
	err = Unpack(t.Context(), io.MultiReader(bytes.NewReader(stream[:len(stream)/2]), iotest.ErrReader(syscall.ECONNRESET)), t.TempDir(), plenty)
	if err == nil || errors.As(err, &Refused{}) {
		t.Errorf("%v is refused", err)
	}
}

// What cannot be packed today cannot be tomorrow.
func TestPackRefuses(t *testing.T) {
	for want, put := range map[string]func(dir string) error{
		"is a device": func(dir string) error {
			if os.Geteuid() != 0 {
				return fs.ErrPermission
			}
			return syscall.Mknod(filepath.Join(dir, "null"), syscall.S_IFCHR|0o600, 1<<8|3)
		},
		"not UTF-8": func(dir string) error { return os.Mkdir(filepath.Join(dir, "\xff"), 0o700) },
	} {
		dir := t.TempDir()
		if err := put(dir); errors.Is(err, fs.ErrPermission) {
			continue // who is not root, or in a container, makes no device
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := Pack(t.Context(), io.Discard, dir); !errors.As(err, &Refused{}) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// What programs and administrators have said of files beside their contents goes along,
// and any difference is another hash.
func TestExtendedAttributes(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	set := func(name, attr, value string) {
		t.Helper()
		err := unix.Setxattr(filepath.Join(from, name), attr, []byte(value), 0)
		if errors.Is(err, unix.ENOTSUP) {
			t.Skip("this file system has no ", attr)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(from, "d"), 0o770), os.WriteFile(filepath.Join(from, "d/f"), []byte("x"), 0o640), os.WriteFile(filepath.Join(from, "closed"), nil, 0o400), os.Mkdir(filepath.Join(from, "d/shut"), 0o500)); err != nil {
		t.Fatal(err)
	}
	// user::rwx, user:1234:rwx, group::r-x, mask::rwx, other::---
	list := "\x02\x00\x00\x00" + "\x01\x00\x07\x00\xff\xff\xff\xff" + "\x02\x00\x07\x00\xd2\x04\x00\x00" + "\x04\x00\x05\x00\xff\xff\xff\xff" + "\x10\x00\x07\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff"
	set("d/f", "user.verge.mine", "a\x00b")
	set("closed", "user.verge.empty", "")
	set("d", "user.verge.dir", "of a directory")
	set("d/shut", "user.verge.dir", "of one that is shut")
	set("d", "system.posix_acl_access", list)
	set("d", "system.posix_acl_default", list)
	if os.Geteuid() == 0 {
		set("d/f", "security.capability", "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00") // cap_net_bind_service
	}
	stream, _ := packed(t, from)
	if err := Unpack(t.Context(), bytes.NewReader(stream), to, plenty); err != nil {
		t.Fatal(err)
	}
	again, _ := packed(t, to)
	if !bytes.Equal(stream, again) {
		t.Error("another hash")
	}
	got := make([]byte, 100)
	if n, err := unix.Getxattr(filepath.Join(to, "d/f"), "user.verge.mine", got); err != nil || string(got[:n]) != "a\x00b" {
		t.Errorf("%q, %v", got[:max(n, 0)], err)
	}
	// A file does not get the list that its directory gives to new ones.
	if n, err := unix.Getxattr(filepath.Join(to, "d/f"), "system.posix_acl_access", nil); err == nil {
		t.Errorf("it has inherited an access list of %d bytes", n)
	}
	if err := unix.Removexattr(filepath.Join(to, "d/f"), "user.verge.mine"); err != nil {
		t.Fatal(err)
	}
	if other, _ := packed(t, to); bytes.Equal(stream, other) {
		t.Error("without one of them it is the same")
	}
	// What belongs to a machine's policy is none of a volume.
	foreign := bytes.Replace(stream, []byte("SCHILY.xattr.user.verge.mine"), []byte("SCHILY.xattr.trusted.verge.x"), 1)
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(t.Context(), bytes.NewReader(foreign), to, plenty); !errors.As(err, &Refused{}) || !strings.Contains(err.Error(), "trusted.verge.x") {
		t.Errorf("%v", err)
	}
}

// A sparse file takes no more of the disk where it arrives; what holds nothing is named.
func TestHolesAndWhatHoldsNothing(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	f, err := os.Create(filepath.Join(from, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	_, werr := f.WriteAt([]byte("middle"), 8<<20)
	if err := errors.Join(werr, f.Truncate(16<<20), f.Close(), os.WriteFile(filepath.Join(from, "zeros"), make([]byte, 100), 0o600), syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	stream, n := packed(t, from)
	if n.Left != 1 || len(n.Examples) != 1 || n.Examples[0] != "pipe" || n.Files != 2 {
		t.Errorf("%+v", n)
	}
	if err := Unpack(t.Context(), bytes.NewReader(stream), to, plenty); err != nil {
		t.Fatal(err)
	}
	again, _ := packed(t, to)
	if info, err := os.Stat(filepath.Join(to, "zeros")); err != nil || info.Size() != 100 {
		t.Errorf("%v, %v", info, err)
	}
	if !bytes.Equal(again, stream) { // the pipe was not in it
		t.Error("another hash")
	}
	info, err := os.Stat(filepath.Join(to, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if took := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() != 16<<20 || took > 1<<20 {
		t.Errorf("%d bytes take %d", info.Size(), took)
	}
}
