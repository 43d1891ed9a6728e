package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster"
	"github.com/verge-edge/verge/tools/bench"
	"github.com/verge-edge/verge/tools/stage"
)

// perProcess is how many cluster orchestrators one process is: each has some twenty
// open files.
const perProcess = 250

// everyCluster is how often a cluster reports at least to its root.
const everyCluster = 5 * time.Second

// rootAtSize measures a root with many clusters that have nothing to do. They are
// cluster orchestrators as any other, without workers, many of them in a process.
func (b *measurer) rootAtSize(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s, err := stage.New(b.verge)
	if err != nil {
		return err
	}
	base, err := os.MkdirTemp(b.memory, "verge-clusters-")
	if err != nil {
		return errors.Join(err, stage.Clear(s.Dir))
	}
	var running []*exec.Cmd
	defer func() {
		for _, cmd := range running {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // it was killed
		}
		err = errors.Join(err, stage.Clear(s.Dir), os.RemoveAll(base))
	}()
	root, err := s.Root(ctx)
	if err != nil {
		return err
	}
	client, err := root.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	begin := time.Now()
	for from := 0; from < b.clusters; from += perProcess {
		to := min(from+perProcess, b.clusters)
		cmd := exec.CommandContext(ctx, self, "-serve-clusters", base, "-from", strconv.Itoa(from), "-to",
			strconv.Itoa(to), "-context", root.Context)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return err
		}
		running = append(running, cmd)
		// One process after the other: all at once would only wait for each other.
		err := b.until(ctx, fmt.Sprintf("%d clusters are connected", to),
			func(ctx context.Context) (bool, string, error) {
				list, err := client.Clusters.List(ctx)
				n := 0
				for _, c := range list {
					if c.Connected && c.Aggregate != nil {
						n++
					}
				}
				return n == to, strconv.Itoa(n), err
			})
		if err != nil {
			return err
		}
	}
	b.Note(time.Since(begin).Seconds(), "s", "until all %d clusters are connected", b.clusters)
	use := func() (bench.Use, error) { return bench.Measure([]int{root.PID()}) }
	if err := bench.Pause(ctx, 6*everyCluster); err != nil {
		return err
	}
	before, err := use()
	if err != nil {
		return err
	}
	begin = time.Now()
	if err := bench.Pause(ctx, b.span); err != nil {
		return err
	}
	after, err := use()
	if err != nil {
		return err
	}
	took, cpu := time.Since(begin), after.Ticks-before.Ticks
	what := fmt.Sprintf("idle root of %d clusters", b.clusters)
	b.Most(cpu.Seconds()/took.Seconds(), 0.2, "cores", "%s: processor", what)
	b.Most(float64(after.PSS)/1e6, 500, "MB", "%s: memory (PSS)", what)
	b.Note(float64(after.Dirty)/1e6, "MB", "%s: memory, private dirty", what)
	b.Note(float64(after.Written-before.Written), "B", "%s: written to disk in %s", what, took.Round(time.Second))
	return nil
}

// serveClusters is a process of rootAtSize: it runs clusters until it is killed.
func serveClusters(ctx context.Context, base, contextFile string, from, to int) error {
	e, err := client.ReadContext(contextFile)
	if err != nil {
		return err
	}
	client, err := client.New(e)
	if err != nil {
		return err
	}
	defer client.Close()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	const atOnce = 4
	slots := make(chan struct{}, atOnce)
	errs := make([]error, to-from)
	all := make([]*cluster.Cluster, to-from)
	var work sync.WaitGroup
	for n := range all {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			name := fmt.Sprintf("c-%d", from+n)
			token, err := client.Tokens.Create(ctx, apiv1.TokenRequest{Kind: "cluster", Cluster: name})
			if err == nil {
				all[n], err = cluster.Start(ctx, cluster.Options{
					Dir: filepath.Join(base, name), Name: name, TokenFile: "-", Stdin: strings.NewReader(token.Token),
					LinkAddr: "127.0.0.1:0", APIAddr: "127.0.0.1:0", Areas: []string{name}, Log: log,
				})
			}
			errs[n] = err
		})
	}
	work.Wait()
	err = errors.Join(errs...)
	if err == nil {
		<-ctx.Done()
	}
	for _, c := range all {
		if c != nil {
			c.Close()
		}
	}
	return err
}
