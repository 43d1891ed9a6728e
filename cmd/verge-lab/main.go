// Command verge-lab is the test bed of Verge and its experiments. verge lab and verge sim
// start it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/verge-edge/verge/internal/cli/labcmd"
	"github.com/verge-edge/verge/internal/obs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends the process at once.
	context.AfterFunc(ctx, stop)
	code := labcmd.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, obs.Version())
	stop()
	os.Exit(code)
}
