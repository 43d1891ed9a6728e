//go:build !linux

package daemon

import "github.com/verge-edge/verge/internal/cli"

// labCommands: there is no lab without network namespaces.
func labCommands() *cli.Lab { return nil }
