package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/handover"
	"github.com/verge-edge/verge/internal/leftover"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container"
	"github.com/verge-edge/verge/internal/runtime/process"
	"github.com/verge-edge/verge/internal/runtime/wasm"
	"github.com/verge-edge/verge/internal/wire"
)

// wasmDir has the modules of functions, below the worker's directory: copies, and
// machine code made of them. It may be removed while the worker is stopped.
const wasmDir = "wasm"

// ReadConfig reads what the agent wrote for the engine in the data directory dir.
func ReadConfig(dir string) (engineapi.EngineConfig, error) {
	var c engineapi.EngineConfig
	path := filepath.Join(dir, engineapi.EngineConfigFile)
	if err := state.ReadJSON(configKind, path, &c); err != nil {
		return engineapi.EngineConfig{},
			fmt.Errorf("engine configuration: %w; it is written by `verge worker`, which also starts the engine", err)
	}
	return c, nil
}

// Drivers returns the drivers of this build for the engine in the data directory dir, whose
// configuration is c. To be closed when the engine has ended; instances keep running.
func Drivers(dir string, c engineapi.EngineConfig, log *slog.Logger) (drivers map[string]runtime.Driver,
	closeAll func()) {
	drivers = map[string]runtime.Driver{}
	p := process.New(process.Options{Base: dir, Logger: log})
	drivers[p.Name()] = p
	b := container.New(container.Options{Base: dir, Address: c.Containerd, Pull: c.Pull, Logger: log})
	drivers[b.Name()] = b
	w := wasm.New(wasm.Options{Dir: filepath.Join(dir, wasmDir), Logger: log})
	drivers[w.Name()] = w
	return drivers, func() {
		for name, d := range map[string]io.Closer{p.Name(): p, b.Name(): b, w.Name(): w} {
			if err := d.Close(); err != nil {
				log.Warn("close a driver", "runtime", name, "error", err)
			}
		}
	}
}

// Main is `verge engine`: it runs the instances of the worker whose data
// directory is dir until ctx is done or the agent asks for a shutdown. version is
// the program's, for people.
func Main(ctx context.Context, dir, version string, log *slog.Logger) error {
	dir, err := state.Name(dir)
	if err != nil {
		return err
	}
	inherited, err := handover.Take()
	if err != nil {
		return fmt.Errorf("taking over from the engine before: %w", err)
	}
	c, err := ReadConfig(dir)
	if err != nil {
		return err
	}
	drivers, closeAll := Drivers(dir, c, log)
	closeAll = sync.OnceFunc(closeAll)
	defer closeAll()
	o := Options{Dir: dir, Config: c, Drivers: drivers, Log: log, Version: version, Listen: true, Inherited: inherited,
		Release: closeAll, Args: os.Args[1:]}
	if inherited != nil {
		o.Sockets = inherited.Sockets
	}
	e, err := New(o)
	if err != nil {
		return err
	}
	forget, err := leftover.Register(e.opts.Dir)
	if err != nil { // what it leaves is found by its mark, but not its directory
		log.Info("this worker is not registered on its machine", "error", err)
		forget = func() {}
	}
	err = e.Run(ctx)
	select {
	case <-e.halted:
		forget()
	default: // what runs goes on
	}
	return err
}

const (
	maxConfig = 1 << 20
)

var (
	configKind = &statefile.Kind{What: "the engine's configuration", Max: maxConfig, Version: wire.Version}
)
