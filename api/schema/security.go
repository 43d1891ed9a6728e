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
			Note: "Secret of the namespace with the credentials for the image's registry, from verge secret set " +
				"--registry, or a .dockerconfigjson."},
		{Path: in,
			Note: "What a container may do. By default its root is read only except /tmp and /run, its programs " +
				"cannot gain rights, and it has few capabilities and containerd's list of system calls. More " +
				"than that must be allowed for its namespace (verge namespace standing)."},
		{Path: in + ".root", Default: api.RootReadOnly + " (of a container)",
			Values: values(api.RootReadOnly+" "+api.RootWritable, "", ""),
			Note: "writable: it may write to the files of its image, and what it writes is gone at its next " +
				"start. read-only: /tmp and /run are in memory, 64 MiB each, VOLUME paths of the image are on " +
				"disk and as in the image at each start, and volumes work as usual."},
		{Path: in + ".add", Single: true, Normal: api.CapabilityName, Values: values(api.KnownCapabilities, "", ""),
			spellings: spellings(api.KnownCapabilities),
			Note: "Capabilities beside those of every container (" + strings.Join(api.DefaultCapabilities(),
				", ") + "), one or a list. A user other than root has these, and no others."},
		{Path: in + ".drop", Single: true, Normal: api.CapabilityName,
			Values:    values(api.AllCapabilities+" "+api.KnownCapabilities, "", ""),
			spellings: spellings(api.AllCapabilities + " " + api.KnownCapabilities),
			Note:      "Capabilities of every container that this one does not get; ALL: all of them."},
		{Path: in + ".new_privileges",
			Note: "true: setuid programs of the image, and those with file capabilities, get their rights (sudo, " +
				"ping)."},
		{Path: in + ".seccomp", Default: api.SeccompDefault + " (of a container)",
			Values: values(api.SeccompDefault+" "+api.SeccompNone, "", ""),
			Note:   "none: all system calls are allowed."},
	}
}
