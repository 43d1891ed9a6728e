package ocispec

import (
	"fmt"
	"os"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// AddDevice gives a container a device node of the machine, and the leave to open it:
// runc makes the node, and a rule of its device control group (v1) or a program for it
// (v2), which forbid all others. What is no device node, such as a socket by which a
// device is reached, is mounted.
func AddDevice(spec *specs.Spec, path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("device %s of this worker: %w", path, err)
	}
	var kind string
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		kind = "c"
	case unix.S_IFBLK:
		kind = "b"
	default:
		spec.Mounts = append(spec.Mounts,
			specs.Mount{Destination: path, Source: path, Type: "bind", Options: []string{"bind", "rw", "nosuid", "noexec"}})
		return nil
	}
	dev := uint64(st.Rdev) //nolint:unconvert // of another type on other machines
	major, minor := int64(unix.Major(dev)), int64(unix.Minor(dev))
	mode := os.FileMode(st.Mode & 0o777)
	if !slices.ContainsFunc(spec.Linux.Devices, func(d specs.LinuxDevice) bool { return d.Path == path }) {
		spec.Linux.Devices = append(spec.Linux.Devices, specs.LinuxDevice{
			Path: path, Type: kind, Major: major, Minor: minor, FileMode: &mode, UID: &st.Uid, GID: &st.Gid,
		})
	}
	if spec.Linux.Resources == nil {
		spec.Linux.Resources = &specs.LinuxResources{}
	}
	spec.Linux.Resources.Devices = append(spec.Linux.Resources.Devices,
		specs.LinuxDeviceCgroup{Allow: true, Type: kind, Major: &major, Minor: &minor, Access: "rw"})
	return nil
}
