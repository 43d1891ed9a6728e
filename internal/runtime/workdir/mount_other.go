//go:build !linux

package workdir

import (
	"errors"

	"github.com/verge-edge/verge/internal/filecopy"
)

// CannotMount says why this process may not mount file systems, "" if it may.
func CannotMount() string { return "only Linux is supported" }

var errUnsupported = errors.New("mounts are supported on Linux only")

func mountTmpfs(string, int64, *filecopy.Owner) error { return errUnsupported }

func mountReadOnly(string, string) error { return errUnsupported }

func unmountBelow(string) error { return nil }

func growTmpfs(string, int64) error { return nil }
