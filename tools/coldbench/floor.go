package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// freePort is one of the loopback.
func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close() //nolint:errcheck // nobody connected
	return ln.Addr().(*net.TCPAddr).Port, nil
}

// ask gets the page at a host of an address.
func ask(ctx context.Context, client *http.Client, addr, host string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", http.NoBody)
	if err != nil {
		return err
	}
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", resp.Status, body)
	}
	return err
}

// newClient makes a connection for each request.
func newClient() *http.Client {
	return &http.Client{Timeout: stepTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
}

// answered asks until somebody answers at a port.
func answered(ctx context.Context, port int) error {
	client := newClient()
	for end := time.Now().Add(stepTimeout); ; {
		err := ask(ctx, client, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "floor.test")
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond / 2)
	}
}

// bareProcess starts the program as a shell would.
func (b *measurer) bareProcess(program string) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		port, err := freePort()
		if err != nil {
			return 0, err
		}
		cmd := exec.CommandContext(ctx, program)
		cmd.Env = []string{"VERGE_LISTEN=127.0.0.1", "PORT=" + strconv.Itoa(port)}
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		err = answered(ctx, port)
		took := time.Since(begin)
		_ = cmd.Process.Kill() // it runs
		_ = cmd.Wait()         // it was killed
		return took, err
	}
}

// bareContainer starts the image with containerd's own tool.
func (b *measurer) bareContainer(ctx context.Context) (time.Duration, error) {
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	id := "floor-" + strconv.Itoa(port)
	begin := time.Now()
	out, err := b.containerd.Ctr("run", "--detach", "--net-host", "--env", "VERGE_LISTEN=127.0.0.1", "--env",
		"PORT="+strconv.Itoa(port), image, id)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	err = answered(ctx, port)
	took := time.Since(begin)
	_, kill := b.containerd.Ctr("tasks", "rm", "--force", id)
	_, remove := b.containerd.Ctr("containers", "rm", id)
	return took, errors.Join(err, kill, remove)
}

// bareModule loads a module as the library does it alone, its machine code from disk,
// in a runtime of its own; run says whether its main function is run.
func (b *measurer) bareModule(path string, run bool) func(context.Context) (time.Duration, error) {
	dir := filepath.Join(b.dir, "floor-"+filepath.Base(path))
	load := func(ctx context.Context) (err error) {
		binary, err := os.ReadFile(path) //nolint:gosec // of the measurement
		if err != nil {
			return err
		}
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			return err
		}
		rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
			WithCompilationCache(cache).WithCloseOnContextDone(true).WithDebugInfoEnabled(false))
		defer func() { err = errors.Join(err, rt.Close(ctx), cache.Close(ctx)) }()
		if _, err := wasi_snapshot_preview1.Instantiate(ctx, rt); err != nil {
			return err
		}
		m, err := rt.CompileModule(ctx, binary)
		if err != nil || !run {
			return err
		}
		_, err = rt.InstantiateModule(ctx, m, wazero.NewModuleConfig().WithName("").WithStdout(io.Discard))
		return err
	}
	return func(ctx context.Context) (time.Duration, error) {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			if err := load(ctx); err != nil { // compiles it
				return 0, err
			}
		}
		begin := time.Now()
		err := load(ctx)
		return time.Since(begin), err
	}
}
