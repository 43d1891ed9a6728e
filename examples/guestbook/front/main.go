// Command guestbook-front is the web front of the guestbook example: a page with
// the latest entries and a form, the same as JSON, and a health check. It keeps
// nothing itself, so that any number of them can run.
//
// It is told everything by its environment: PORT is where it listens,
// VERGE_STORE_ADDR where the store is and VERGE_COPY_ADDR, if there is one, its
// copy, VERGE_INSTANCE, VERGE_WORKER and
// VERGE_CLUSTER who it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		slog.Error("the guestbook ends", "error", err)
		os.Exit(1)
	}
}

func run() error {
	port, addr := os.Getenv("PORT"), os.Getenv("VERGE_STORE_ADDR")
	if port == "" || addr == "" {
		return errors.New("PORT or VERGE_STORE_ADDR is not set: run this by `verge apply examples/guestbook/verge.yaml`")
	}
	store := newStore(addr)
	defer store.close()
	front := &front{book: store, self: self{
		Instance: os.Getenv("VERGE_INSTANCE"), Worker: os.Getenv("VERGE_WORKER"), Cluster: os.Getenv("VERGE_CLUSTER"),
	}}
	if addr := os.Getenv("VERGE_COPY_ADDR"); addr != "" {
		second := newStore(addr)
		defer second.close()
		front.copy = second
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("VERGE_LISTEN"), port))
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	srv := &http.Server{
		Handler: front.handler(), MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	slog.Info("the guestbook is open", "address", ln.Addr(), "store", addr)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Verge has taken us out of the routes; what is under way may end.
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return srv.Shutdown(patience)
}
