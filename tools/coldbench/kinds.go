package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// kind is a way to be started, and what was measured of it.
type kind struct {
	name, bare string
	reach      float64 // milliseconds, of the median
	services   []service
	// floor does the same without Verge: the time until it has answered, or, for
	// modules, until one could.
	floor func(ctx context.Context) (time.Duration, error)
	// rests: what was started stays in memory for a while after its instance is gone.
	rests bool

	entry, gateway, floors []time.Duration
	cpu                    time.Duration // of the worker, for all starts
}

// service is one that sleeps.
type service struct{ app, spec string }

func (s service) instance() string { return s.app + ".fn.0" }
func (s service) host() string     { return s.app + ".test" }

// descriptor of the service. It sleeps a second after its last request.
func (s service) descriptor() []byte {
	return fmt.Appendf(nil, `application: %s
services:
  fn:
    replicas: {min: 0, max: 1}
    idle: 1s
    resources: {cpu: 10m, memory: 16Mi, disk: 1Mi}
    ports: [{name: http, protocol: http, ingress: {host: %s}}]
%s`, s.app, s.host(), s.spec)
}

func wasmService(app, module string) service {
	return service{app, "    runtime: wasm\n    module: " + module + "\n    limits: {memory: 64Mi}\n"}
}

// distinct writes a copy of a module that is another one, for it has a section more
// that nobody reads: a worker knows modules by their digests.
func distinct(module []byte, to string, n int) error {
	section := binary.AppendUvarint(nil, 6)
	section = append(append(section, 1, 'n'), fmt.Sprintf("%04d", n)...)
	return os.WriteFile(to, append(append(slices.Clip(module), 0), section...), 0o600)
}

// modules are n distinct modules, as many services.
func (b *measurer) modules(name, path string, n int) ([]service, error) {
	module, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []service
	for i := range n {
		to := filepath.Join(b.dir, fmt.Sprintf("%s-%d.wasm", name, i))
		if err := distinct(module, to, i); err != nil {
			return nil, err
		}
		out = append(out, wasmService(fmt.Sprintf("%s-%d", name, i), to))
	}
	return out, nil
}

// goModule makes the function of `verge fn new` and builds it.
func (b *measurer) goModule(ctx context.Context) (string, error) {
	for _, args := range [][]string{{"fn", "new", "hello"}, {"fn", "build", "hello"}} {
		cmd := b.Stage.Command(ctx, b.Root.Context, args...)
		cmd.Dir = b.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("verge %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return filepath.Join(b.dir, "hello", "hello.wasm"), nil
}

// wanted says whether a kind is to be measured.
func (b *measurer) wanted(name string) bool { return strings.Contains(name, b.only) }

// build makes what is to be deployed.
func (b *measurer) build(ctx context.Context) error {
	if name := "small module from disk"; b.wanted(name) {
		list, err := b.modules("small", b.module, b.rounds)
		if err != nil {
			return err
		}
		b.kinds = append(b.kinds, &kind{
			name: name, reach: 5, services: list, rests: true,
			bare: "wazero alone: module and machine code from disk, one run", floor: b.bareModule(b.module, true),
		})
	}
	if name := "Go module from disk"; b.wanted(name) {
		path, err := b.goModule(ctx)
		if err != nil {
			return err
		}
		list, err := b.modules("go", path, b.rounds)
		if err != nil {
			return err
		}
		b.kinds = append(b.kinds, &kind{
			name: name, reach: 80, services: list, rests: true,
			bare: "wazero alone: module and machine code from disk, not run", floor: b.bareModule(path, false),
		})
	}
	hello, err := filepath.Abs(b.hello)
	if err != nil {
		return err
	}
	if name := "process"; b.wanted(name) {
		b.kinds = append(b.kinds, &kind{
			name: name, reach: 100, services: []service{{"process", "    command: [" + hello + "]\n"}},
			bare: "fork, exec, and asking until it answers", floor: b.bareProcess(hello),
		})
	}
	if name := "container, image present"; b.containerd != nil && b.wanted(name) {
		if err := b.loadImage(hello); err != nil {
			return fmt.Errorf("image: %w", err)
		}
		b.kinds = append(b.kinds, &kind{
			name: name, reach: 400, services: []service{{"container",
				"    runtime: container\n    image: cold:1\n    pull: never\n"}},
			bare: "ctr run, and asking until it answers", floor: b.bareContainer,
		})
	}
	if len(b.kinds) == 0 && !strings.Contains(idle, b.only) {
		return errors.New("no kind has that name")
	}
	return nil
}

const image = "docker.io/library/cold:1"

// loadImage gives containerd an image of the program.
func (b *measurer) loadImage(program string) error {
	img, err := containertest.Build(containertest.Config{Entrypoint: []string{program}}, program)
	if err != nil {
		return err
	}
	archive := filepath.Join(b.dir, "image.tar")
	if err := containertest.Save(archive, "cold:1", img); err != nil {
		return err
	}
	out, err := exec.Command(b.Stage.Verge, "image", "load", archive, "--containerd",
		b.containerd.Address).CombinedOutput() //nolint:gosec,noctx // it ends by itself
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
