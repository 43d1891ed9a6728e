// Command verge is Verge: root, cluster, worker, all three in one process, and
// their client.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/verge-edge/verge/internal/daemon"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends the process at once.
	context.AfterFunc(ctx, stop)
	code := daemon.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
