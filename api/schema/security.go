package schema

import (
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
)

func securityRows() []FieldSpec {
	const in = "services.*.security"
	spellings := func(names string) (all []string) {
		for _, c := range strings.Fields(names) {
			all = append(all, "CAP_"+c)
		}
		return all
	}
	return []FieldSpec{
		{Path: "services.*.pull_secret", Pattern: pattern.Label,
			Note: "Name of a secret of the namespace with the credentials for the image's registry: what verge secret set " +
				"--registry makes, or a .dockerconfigjson."},
		{Path: in,
			Note: "What a container may do. Without it its root is read only but for /tmp and /run, its programs cannot get " +
				"more rights than they begin with, it has few capabilities and the usual list of system calls. What goes beyond " +
				"that has to be allowed to its namespace (verge namespace standing)."},
		{Path: in + ".root", Default: api.RootReadOnly + " (of a container)",
			Values: values(api.RootReadOnly+" "+api.RootWritable, "", ""),
			Note: "Whether it may write to the files of its image: writable, what it writes is gone at its next start. With " +
				"read-only /tmp and /run are in memory, of 64 MiB each, what the image declares as VOLUME is on disk and empty " +
				"or as in the image at each start, and volumes are as they are."},
		{Path: in + ".add", Single: true, Normal: api.CapabilityName, Values: values(api.KnownCapabilities, "", ""),
			spellings: spellings(api.KnownCapabilities),
			Note: "Capabilities beside those of every container (" + strings.Join(api.DefaultCapabilities(),
				", ") + "), one or a list. A user other than root has these, and no others."},
		{Path: in + ".drop", Single: true, Normal: api.CapabilityName,
			Values:    values(api.AllCapabilities+" "+api.KnownCapabilities, "", ""),
			spellings: spellings(api.AllCapabilities + " " + api.KnownCapabilities),
			Note:      "Capabilities of every container that it does not get; ALL: none of them."},
		{Path: in + ".new_privileges",
			Note: "true: a program of the image that is setuid, or has capabilities of its own, gets what it is marked with " +
				"(sudo, ping)."},
		{Path: in + ".seccomp", Default: api.SeccompDefault + " (of a container)",
			Values: values(api.SeccompDefault+" "+api.SeccompNone, "", ""),
			Note:   "none: it may make any system call."},
	}
}
