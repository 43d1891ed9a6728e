//go:build linux && !race

package busserver

import (
	_ "unsafe" // for the name of another package

	_ "github.com/nats-io/nats-server/v2/server/pse" // its init goes before ours
)

// sampledFile is what the library reads the processor time from, each second; it
// stops for good when it cannot. The race detector would see that nothing orders
// our write before its first read, a second later, so it keeps its clock there.
//
//go:linkname sampledFile github.com/nats-io/nats-server/v2/server/pse.procStatFile
var sampledFile string

func init() { sampledFile = "" }
