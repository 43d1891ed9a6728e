package volume

import (
	"archive/tar"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxXattrs bounds what is read of the extended attributes of one file, in bytes; the
// kernel's own bound is 64 KiB for each, and the reader of archives takes 1 MiB.
const maxXattrs = 512 << 10

// carried says whether an extended attribute belongs to what is stored: those of
// programs, access lists and capabilities. Labels of a machine's security policy
// (security.selinux), and what its file systems keep for themselves (trusted.*), are of
// that machine.
func carried(name string) bool {
	switch name {
	case "security.capability", "system.posix_acl_access", "system.posix_acl_default":
		return true
	}
	return strings.HasPrefix(name, "user.")
}

// packXattrs adds the extended attributes of an open file to its header.
func packXattrs(h *tar.Header, f *os.File) error {
	names, err := xattrNames(f)
	if err != nil {
		return fmt.Errorf("%s: list its extended attributes: %w", h.Name, err)
	}
	sum := 0
	for _, name := range names {
		if !carried(name) {
			continue
		}
		value, err := xattr(f, name)
		if errors.Is(err, unix.ENODATA) {
			continue // gone meanwhile
		}
		if err != nil {
			return fmt.Errorf("%s: read its extended attribute %s: %w", h.Name, name, err)
		}
		if strings.Contains(name, "=") {
			return Refusedf("%s has an extended attribute %q, whose name cannot be packed; remove it", h.Name, name)
		}
		if sum += len(name) + len(value); sum > maxXattrs {
			return Refusedf("%s has more than %d bytes of extended attributes", h.Name, maxXattrs)
		}
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[xattrPrefix+name] = string(value)
	}
	return nil
}

// xattrNames lists them; none where the file system has none.
func xattrNames(f *os.File) ([]string, error) {
	for {
		n, err := unix.Flistxattr(int(f.Fd()), nil)
		if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		b := make([]byte, n)
		n, err = unix.Flistxattr(int(f.Fd()), b)
		if errors.Is(err, unix.ERANGE) { // there are more now
			continue
		}
		if err != nil {
			return nil, err
		}
		return strings.Split(strings.TrimSuffix(string(b[:n]), "\x00"), "\x00"), nil
	}
}

func xattr(f *os.File, name string) ([]byte, error) {
	for {
		n, err := unix.Fgetxattr(int(f.Fd()), name, nil)
		if err != nil {
			return nil, err
		}
		b := make([]byte, n)
		if n == 0 {
			return b, nil
		}
		n, err = unix.Fgetxattr(int(f.Fd()), name, b)
		if errors.Is(err, unix.ERANGE) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return b[:n], nil
	}
}

// ofPrograms are the extended attributes that a program may set in a file that it may
// write, ofRights the others. The former are set while the file is open to its owner; a
// change of the owner takes some of the latter away.
func ofPrograms(name string) bool { return strings.HasPrefix(name, "user.") }
func ofRights(name string) bool   { return !ofPrograms(name) }

// setXattrs gives an open file those extended attributes of its header that are of a
// kind.
func setXattrs(f *os.File, h *tar.Header, of func(name string) bool) error {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok || !of(name) {
			continue
		}
		if !carried(name) {
			return fmt.Errorf("its extended attribute %.100q is none that a volume has", name)
		}
		if err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0); err != nil {
			return fmt.Errorf("its extended attribute %s cannot be set here: %w", name, err)
		}
	}
	return nil
}
