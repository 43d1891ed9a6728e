package obs

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	build := func(main string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Version: main}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	const commit = "0123456789abcdef"
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3":                   build("v1.2.3", "vcs.revision", commit),
		"devel+0123456789ab":       build("(devel)", "vcs.revision", commit, "vcs.modified", "false"),
		"devel+0123456789ab-dirty": build("", "vcs.modified", "true", "vcs.revision", commit),
		"devel+0123":               build("", "vcs.revision", "0123"),
		"devel":                    build("(devel)", "vcs.modified", "true"),
	} {
		if got := versionOf(info); got != want {
			t.Errorf("version of %v is %q, want %q", info.Settings, got, want)
		}
	}
	if Version() == "" {
		t.Error("this build has no version")
	}
}
