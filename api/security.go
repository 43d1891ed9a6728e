package api

import (
	"slices"
	"strings"
)

// Rights of a container that are not capabilities, as a namespace allows them.
const (
	RightWritableRoot  = "writable-root"
	RightNewPrivileges = "new-privileges"
	RightNoSeccomp     = "no-seccomp"
)

// Rights of a process, as a namespace allows them: to run as root of the worker's machine,
// or as another user of it.
const (
	RightHostRoot = "host-root"
	RightHostUser = "host-user"
)

// Values of Security.
const (
	RootReadOnly   = "read-only"
	RootWritable   = "writable"
	SeccompDefault = "default"
	SeccompNone    = "none"
	// AllCapabilities is what Drop says for all of them.
	AllCapabilities = "ALL"
)

// Security is what a container may do. The zero value is that of a descriptor that is
// older than it: the root is writable, all else is as without it.
type Security struct {
	// Root says whether the container may write to the files of its image.
	Root string `json:"root,omitempty"`
	// Add are capabilities beside DefaultCapabilities, Drop those of them that it does
	// not have; as Linux names them, without CAP_.
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
	// NewPrivileges: a program may get more rights than who executes it (setuid).
	NewPrivileges bool `json:"new_privileges,omitempty"`
	// Seccomp is the list of system calls that it may make.
	Seccomp string `json:"seccomp,omitempty"`
}

// IsZero says whether nothing is said of it.
func (s Security) IsZero() bool {
	return s.Root == "" && s.Seccomp == "" && !s.NewPrivileges && len(s.Add) == 0 && len(s.Drop) == 0
}

// ReadOnly says whether the container may not write to the files of its image.
func (s Security) ReadOnly() bool { return s.Root == RootReadOnly }

// DefaultCapabilities are those of a container that says nothing of them, while its
// program is root: what ordinary images need to prepare their files, to become another
// user, to end their children and to listen at a low port.
func DefaultCapabilities() []string {
	return []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID"}
}

// KnownCapabilities are all that Linux knows.
const KnownCapabilities = "AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN " +
	"DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID " +
	"IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN NET_BIND_SERVICE " +
	"NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID " +
	"SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO " +
	"SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG WAKE_ALARM"

// IsCapability says whether Linux has a capability of that name.
func IsCapability(name string) bool { return slices.Contains(strings.Fields(KnownCapabilities), name) }

// CapabilityName brings what people write into the form of the table: CAP_NET_RAW and
// net_raw are NET_RAW.
func CapabilityName(s string) string { return strings.TrimPrefix(strings.ToUpper(s), "CAP_") }

// Rights are what s wants beyond what every container may, in order: what a namespace
// must allow. That of a descriptor which is older than Security is none.
func (s Security) Rights() []string {
	var out []string
	for _, c := range s.Add {
		if !slices.Contains(DefaultCapabilities(), c) {
			out = append(out, c)
		}
	}
	for right, wanted := range map[string]bool{
		RightWritableRoot: s.Root == RootWritable, RightNewPrivileges: s.NewPrivileges,
		RightNoSeccomp: s.Seccomp == SeccompNone,
	} {
		if wanted {
			out = append(out, right)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// IsRoot says whether a user, as in Service.User, is root.
func IsRoot(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	return name == "root" || name != "" && strings.Trim(name, "0") == ""
}

// AllowsUser says whether user is among those allowed, each as in Service.User. Root has
// several names.
func AllowsUser(allowed []string, user string) bool {
	return slices.Contains(allowed, user) || IsRoot(user) && slices.ContainsFunc(allowed, IsRoot)
}

// UserRights are what the user of s wants beyond what every process may: what a namespace
// must allow. A container has its users to itself.
func (s *Service) UserRights() []string {
	switch {
	case s.User == "" || s.Runtime == Container:
		return nil
	case IsRoot(s.User):
		return []string{RightHostRoot}
	}
	return []string{RightHostUser}
}

// Capabilities are those that s comes to.
func (s Security) Capabilities() []string {
	out := slices.Clone(s.Add)
	for _, c := range DefaultCapabilities() {
		if !slices.Contains(s.Drop, AllCapabilities) && !slices.Contains(s.Drop, c) {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
