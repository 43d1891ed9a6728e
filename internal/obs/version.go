package obs

import "runtime/debug"

// version is set by the build:
// -ldflags "-X github.com/verge-edge/verge/internal/obs.version=v0.1.0".
var version string

// Version of this build: what the build set; else the module's version; else
// "devel+<commit>", with "-dirty" for uncommitted changes; else "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var commit, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if commit == "" {
		return "devel"
	}
	return "devel+" + commit[:min(12, len(commit))] + dirty
}
