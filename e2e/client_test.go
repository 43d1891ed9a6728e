package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
)

// result of a run of the command line.
type result struct {
	out, err string
	code     int
}

// cliLimit is how long one run of the command line may take.
const cliLimit = 150 * time.Second

// verge runs the command line with a context file ("" for none).
func verge(t *testing.T, contextFile string, args ...string) result {
	t.Helper()
	return vergeIn(t, contextFile, "", args...)
}

// vergeIn is verge with something on standard input.
func vergeIn(t *testing.T, contextFile, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cliLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs.verge, args...)
	cmd.Env = environment()
	if contextFile != "" {
		cmd.Env = environment("VERGE_CONTEXT=" + contextFile)
	}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("verge %s: %v", strings.Join(args, " "), err)
	}
	if ctx.Err() != nil {
		t.Fatalf("verge %s did not end within %s\n%s%s", strings.Join(args, " "), cliLimit, out.String(), errs.String())
	}
	return result{out: out.String(), err: errs.String(), code: cmd.ProcessState.ExitCode()}
}

// ok runs a command that must succeed and returns its standard output.
func (x *tier) ok(args ...string) string {
	x.w.t.Helper()
	r := verge(x.w.t, x.contextFile(), args...)
	if r.code != 0 {
		x.w.t.Fatalf("verge %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// apply applies a descriptor and expects that it holds.
func (x *tier) apply(descriptor string) {
	x.w.t.Helper()
	x.ok("apply", "--timeout", "2m", x.w.file("app-", descriptor))
}

// applyOnce sends a descriptor while the tier may be away. As each verge apply does, it
// makes a connection of its own: on one that was there before the tier fell silent the
// kernel may send again what the client has given up long ago, and that takes effect
// after what was acknowledged meanwhile.
func (x *tier) applyOnce(ctx context.Context, descriptor string) error {
	x.w.t.Helper()
	c, err := client.New(must[client.Context](x.w.t)(client.ReadContext(x.contextFile())))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Applications.Apply(ctx, []byte(descriptor), false)
	return err
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not the JSON that was expected: %v\n%s", err, text)
	}
	return v
}

// instances of an application as the tier knows them, by id.
func (x *tier) instances(app string) map[string]apiv1.InstanceView {
	x.w.t.Helper()
	return byID(must[[]apiv1.InstanceView](x.w.t)(x.client().Instances.List(context.Background(), app, "")))
}

func byID(list []apiv1.InstanceView) map[string]apiv1.InstanceView {
	out := map[string]apiv1.InstanceView{}
	for _, i := range list {
		out[i.ID] = i
	}
	return out
}

// holds waits until the application is as promised.
func (x *tier) holds(app string, within time.Duration) {
	x.w.t.Helper()
	c := x.client()
	eventually(x.w.t, within, app+" holds", func() error {
		v, err := c.Applications.Get(context.Background(), app)
		if err == nil && !v.Holds {
			err = errors.New(v.Message)
		}
		return err
	})
}

// running is one process of an instance.
type running struct {
	pid  int
	port string
}

// running lists the instances' processes in a directory, by instance.
func runningIn(t *testing.T, dir string) map[string]running {
	t.Helper()
	out := map[string]running{}
	for _, p := range processesOf(dir) {
		id := p.env["VERGE_INSTANCE"]
		if id == "" || filepath.Base(p.args[0]) != "testprogram" {
			continue
		}
		if old, ok := out[id]; ok {
			t.Errorf("instance %s runs twice: pids %d and %d", id, old.pid, p.pid)
		}
		out[id] = running{p.pid, p.env["PORT"]}
	}
	return out
}

// pids of the running instances of an application.
func (w *world) pids(app string) map[string]int {
	w.t.Helper()
	out := map[string]int{}
	for id, r := range runningIn(w.t, w.dir) {
		if strings.HasPrefix(id, app+".") {
			out[id] = r.pid
		}
	}
	return out
}

// requestTimeout is generous: the machine may be busy with other tests.
const requestTimeout = 10 * time.Second

// fetch asks a path of a host, at a gateway or at an instance itself.
func fetch(addr, host, path string) (string, error) {
	client := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	return fetchBy(client, addr, host, path)
}

func fetchBy(client *http.Client, addr, host, path string) (string, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return "", err
	}
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(b)))
	}
	return string(b), err
}

// who is the answer to /whoami.
type who struct {
	Instance, Worker, Cluster, Mark string
	PID                             int
}

func whoami(addr, host, path string) (who, error) {
	text, err := fetch(addr, host, path)
	if err != nil {
		return who{}, err
	}
	var v who
	err = json.Unmarshal([]byte(text), &v)
	return v, err
}
