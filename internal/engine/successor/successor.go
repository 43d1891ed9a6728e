package successor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/unixsock"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// maxProgram bounds the program of a successor.
	maxProgram = 1 << 30
)

const (
	// tryWithin bounds how long a program may take to say its version.
	tryWithin = 30 * time.Second
)

const (
	// verifyEvery is how often a successor is asked whether it has found everything.
	verifyEvery = 20 * time.Millisecond
)

// Try says which version a program is, if it is one of ours that runs here and has
// this checksum, and what it takes over: engineapi.Handover.
func Try(ctx context.Context, path, sum string) (version string, takes int, err error) {
	if !filepath.IsAbs(path) {
		return "", 0, fmt.Errorf("%q is no absolute path", path)
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return "", 0, err
	case !st.Mode().IsRegular() || st.Mode()&0o111 == 0:
		return "", 0, fmt.Errorf("%s is no file that can be executed", path)
	case st.Size() > maxProgram:
		return "", 0, fmt.Errorf("%s is larger than %d bytes", path, maxProgram)
	}
	if sum != "" {
		is, err := checksum(path)
		if err != nil {
			return "", 0, err
		}
		if !strings.EqualFold(is, sum) {
			return "", 0, fmt.Errorf("%s has the SHA-256 %s and not %s", path, is, sum)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version", "-o", "json")
	cmd.Env = []string{"VERGE_CONTEXT=" + os.DevNull} // it has no server to ask
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", 0, fmt.Errorf("%s version: %w", path, err)
	}
	said := struct {
		Client   string
		Handover int
	}{Handover: 1}
	if json.Unmarshal(out, &said) != nil || said.Client == "" {
		return "", 0, fmt.Errorf("%s version says %.80q", path, out)
	}
	return said.Client, said.Handover, nil
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, io.LimitReader(f, maxProgram))
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}

// Verify waits until the engine that answers at a socket has found what was there before.
// ended is closed when it has ended.
func Verify(ctx context.Context, path string, before engineapi.EngineState, ended <-chan struct{}) (instances int,
	err error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return unixsock.Dial(ctx, path)
	}}
	defer transport.CloseIdleConnections()
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	for {
		now, err := askState(ctx, &http.Client{Transport: transport})
		if err == nil {
			n, missing := found(before, now, exists)
			if missing == "" {
				return n, nil
			}
			err = errors.New(missing)
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-ended:
			return 0, fmt.Errorf("it ended after it was ready: %w", err)
		case <-tick.C:
		}
	}
}

func askState(ctx context.Context, c *http.Client) (s engineapi.EngineState, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/v1/state", nil)
	if err != nil {
		return s, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return s, err
	}
	b, err := atomicfile.ReadAllBounded(resp.Body, state.MaxOrderBytes)
	err = errors.Join(err, resp.Body.Close())
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers with %s: %.200s", resp.Status, bytes.TrimSpace(b))
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// exists says whether there is a process.
func exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// found is how many instances run as they did before, and what is missing of what there
// was before, "" if nothing is. What has ended meanwhile is not missing.
func found(before, now engineapi.EngineState, exists func(pid int) bool) (instances int, missing string) {
	is := make(map[wire.InstanceID]*wire.InstanceStatus, len(now.Changed))
	for i := range now.Changed {
		is[now.Changed[i].ID] = &now.Changed[i]
	}
	for i := range before.Changed {
		was := &before.Changed[i]
		if was.Phase != wire.PhaseRunning || was.Draining || was.Asleep || was.PID > 0 && !exists(was.PID) {
			continue
		}
		got := is[was.ID]
		switch {
		case got == nil:
			return 0, "instance " + was.ID + " is not there"
		case was.PID > 0 && got.PID != was.PID:
			return 0, fmt.Sprintf("instance %s is process %d and was %d", was.ID, got.PID, was.PID)
		case was.Ready && !got.Ready:
			return 0, fmt.Sprintf("instance %s is not ready (%s %s)", was.ID, got.Phase, got.Why)
		}
		instances++
	}
	for _, port := range [][3]string{
		{"data port", before.Info.DataAddr, now.Info.DataAddr},
		{"gateway", before.Info.GatewayAddr, now.Info.GatewayAddr},
	} {
		if port[1] != port[2] {
			return 0, fmt.Sprintf("the %s listens at %q and did at %q", port[0], port[2], port[1])
		}
	}
	if was, is := before.Info.Network, now.Info.Network; was != nil && (is == nil || is.Mode != was.Mode) {
		return 0, "instances are not connected as before, by " + was.Mode
	}
	return instances, ""
}
