package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/agent"
	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/agent/probe"
	"github.com/verge-edge/verge/internal/cli/daemonflags"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/hollow"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/wire"
)

// starting is how many hollow workers join and connect at a time: enough to use the
// cluster's processors, and few enough for none to wait beyond its patience.
const starting = 32

// runHollow runs many agents whose engines run nothing. It ends when ctx does, when
// one could not begin, or when none is left.
func runHollow(ctx context.Context, s *service, f daemonflags.WorkerFlags) error {
	log := s.log.With("role", "worker", "worker", f.Name)
	token, err := hollowToken(f, log)
	if err != nil {
		return err
	}
	found, err := probe.Capacity(f.DataDir, api.Resources{}, f.Reserve)
	if err != nil {
		return err
	}
	capacity := api.Resources{CPU: cmp.Or(f.CPUs, found.CPU), Memory: cmp.Or(f.Memory, found.Memory),
		Disk: cmp.Or(f.Disk, found.Disk)}
	run, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer func() { cancel(nil); all.Wait() }()
	begun := make(chan struct{}, f.Hollow)
	slots := make(chan struct{}, starting)
	quiet := slog.New(leastWarn{s.log.Handler()})
	for n := range f.Hollow {
		select {
		case slots <- struct{}{}:
		case <-run.Done():
			return context.Cause(run)
		}
		name := fmt.Sprintf("%s-%d", f.Name, n+1)
		dir := filepath.Join(f.DataDir, name)
		o := agent.Options{
			Dir: dir, Name: name, Cluster: f.Cluster, Capacity: capacity, Labels: f.Labels, Location: f.Location,
			Network: wire.NetworkLoopback,
			Engine: func(cfg engineapi.EngineConfig) (engineclient.Client, error) {
				return hollow.New(cfg, obs.Version()), nil
			},
			Log: quiet.With("role", "worker", "worker", name),
		}
		// Who has joined needs no token, and would only ask whether it still counts.
		if _, err := os.Stat(filepath.Join(dir, engineapi.IdentityDir, "joined.json")); errors.Is(err, os.ErrNotExist) {
			o.TokenFile, o.Stdin = "-", strings.NewReader(token)
		}
		works := false // touched by the goroutine of the agent alone
		o.Ready = func() {
			works = true
			<-slots
			begun <- struct{}{}
		}
		all.Go(func() {
			err := agent.Run(run, o)
			switch {
			case run.Err() != nil:
			case !works:
				cancel(fmt.Errorf("hollow worker %s: %w", name, err))
			default: // it was removed, or its key is good no more
				log.Error("a hollow worker ended", "name", name, "error", err)
			}
		})
	}
	for range f.Hollow {
		select {
		case <-begun:
		case <-run.Done():
			return ended(ctx, run)
		}
	}
	say(f.Process, "%s ready, %s-1 to %s-%d: nothing really runs there", wire.Count(f.Hollow, "hollow worker"), f.Name,
		f.Name, f.Hollow)
	defer s.ready()()
	none := make(chan struct{})
	go func() { // ends with the last of them
		all.Wait()
		close(none)
	}()
	select {
	case <-run.Done():
		return ended(ctx, run)
	case <-none:
		return ended(ctx, run)
	}
}

// ended is why the hollow workers ended, nil if they were asked to.
func ended(ctx, run context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-run.Done():
		return context.Cause(run)
	default:
		return errors.New("no hollow worker is left; the log says why each ended")
	}
}

// hollowToken reads the token once for all that have not joined yet; "" for none.
func hollowToken(f daemonflags.WorkerFlags, log *slog.Logger) (string, error) {
	if f.TokenFile == "" {
		return "", nil
	}
	text, warning, err := tokens.ReadSecret(f.TokenFile, f.Stdin)
	if err == nil && warning != "" {
		log.Warn(warning)
	}
	return text, err
}

// leastWarn leaves out what thousands of agents have to say when all is well.
type leastWarn struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h leastWarn) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (h leastWarn) WithAttrs(a []slog.Attr) slog.Handler { return leastWarn{h.Handler.WithAttrs(a)} }

// WithGroup implements slog.Handler.
func (h leastWarn) WithGroup(name string) slog.Handler { return leastWarn{h.Handler.WithGroup(name)} }
