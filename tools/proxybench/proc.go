package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/verge-edge/verge/tools/bench"
)

// process is one of the programs.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser // its end ends the process
	out *bufio.Reader
	log bytes.Buffer
}

// start runs this program in a role, tells it what to do and reads its answer.
func (b *measurer) start(role string, tell, answer any) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p := &process{cmd: exec.Command(self, role)}
	p.cmd.Stderr = &p.log
	p.cmd.Env = append(os.Environ(), b.env...)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	b.all = append(b.all, p)
	return p, p.ask(tell, answer)
}

// ask tells the process something and reads its answer.
func (p *process) ask(tell, answer any) error {
	if err := json.NewEncoder(p.in).Encode(tell); err != nil {
		return fmt.Errorf("tell a process: %w: %s", err, p.log.String())
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("a process ended: %w: %s", err, p.log.String())
	}
	if err := json.Unmarshal(line, answer); err != nil {
		return fmt.Errorf("read the answer of a process: %w", err)
	}
	return nil
}

func (p *process) stop() {
	if p.in != nil {
		_ = p.in.Close()
	} else {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	done := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer done.Stop()
	_ = p.cmd.Wait() // how it ends is of no interest
}

// startHAProxy runs it with a configuration.
func (b *measurer) startHAProxy(config string) (*process, error) {
	file := filepath.Join(b.dir, fmt.Sprintf("haproxy-%d.cfg", len(b.all)))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configure HAProxy: %w", err)
	}
	p := &process{cmd: exec.Command(b.o.haproxy, "-db", "-f", file)}
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("HAProxy is missing: install it (on Debian: apt-get install haproxy): %w", err)
		}
		return nil, fmt.Errorf("start HAProxy: %w", err)
	}
	b.all = append(b.all, p)
	return p, nil
}

// rss of a process in bytes.
func (p *process) rss() (int64, error) {
	n, err := bench.Field(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid), "VmRSS:")
	return n << 10, err
}

// cpuOf is the processor time of several.
func cpuOf(list []*process) (sum time.Duration, err error) {
	for _, p := range list {
		d, err := bench.Ticks(p.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}
