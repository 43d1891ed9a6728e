package imagefiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/moby/sys/user" // what runc and containerd read such files with
	"github.com/opencontainers/runtime-spec/specs-go"
)

// oci.WithUser and oci.WithAdditionalGIDs would do what is here, but for size: containerd's
// view of an image's files takes text/template for one kind of mount. That calls methods by
// their names, so that the linker has to keep all methods of all types: 6.7 MB.

// maxGroups bounds /etc/group of an image, in bytes, as containerd does.
const maxGroups = 10 << 20

// User finds who is meant by NAME, UID, either with :GROUP or :GID, and what other
// groups they are in. No name is root's. A UID need not be known.
func User(files fs.FS, wanted string) (u specs.User, err error) {
	name, group, grouped := strings.Cut(wanted, ":")
	if name == "" {
		name = "root"
	} else if u, name, err = userNamed(files, name); err != nil {
		return specs.User{}, err
	}
	if grouped {
		if u.GID, err = groupNamed(files, group); err != nil {
			return specs.User{}, err
		}
	}
	u.AdditionalGids = []uint32{u.GID}
	if name == "" {
		return u, nil
	}
	f, err := files.Open("etc/group")
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err != nil {
		return specs.User{}, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	groups, err := user.ParseGroupFilter(io.LimitReader(f, maxGroups), func(g user.Group) bool {
		return g.Name != name && slices.Contains(g.List, name)
	})
	if err != nil {
		return specs.User{}, fmt.Errorf("its /etc/group: %w", err)
	}
	for _, g := range groups {
		if gid := uint32(g.Gid); !slices.Contains(u.AdditionalGids, gid) {
			u.AdditionalGids = append(u.AdditionalGids, gid)
		}
	}
	return u, nil
}

// userNamed finds a user and their name, which is "" for a number that the image does not know.
func userNamed(files fs.FS, text string) (u specs.User, name string, err error) {
	id, isNumber, err := number(text)
	if err != nil {
		return u, "", err
	}
	found, err := oci.UserFromFS(files, func(e user.User) bool {
		return isNumber && e.Uid == int(id) || !isNumber && e.Name == text
	})
	if isNumber && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, oci.ErrNoUsersFound)) {
		return specs.User{UID: id}, "", nil
	}
	if err != nil {
		return u, "", err
	}
	return specs.User{UID: uint32(found.Uid), GID: uint32(found.Gid)}, found.Name, nil
}

func groupNamed(files fs.FS, text string) (uint32, error) {
	if id, isNumber, err := number(text); isNumber || err != nil {
		return id, err
	}
	return oci.GIDFromFS(files, func(g user.Group) bool { return g.Name == text })
}

// number is text as the number of a user or group, if it is one. runc takes none above
// those of 31 bits.
func number(text string) (id uint32, ok bool, err error) {
	n, err := strconv.Atoi(text)
	if errors.Is(err, strconv.ErrRange) || err == nil && (n < 0 || n > math.MaxInt32) {
		return 0, false, fmt.Errorf("%s is no number from 0 to %d", text, math.MaxInt32)
	}
	return uint32(n), err == nil, nil //nolint:gosec // it is in bounds
}
