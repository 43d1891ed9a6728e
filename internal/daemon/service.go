package daemon

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/cli/daemonflags"
	"github.com/verge-edge/verge/internal/textpages"
)

// manager is the service manager that started this process (systemd with
// Type=notify), told on a socket of its own how far the process is. The zero
// manager is nobody. A library for it is there, but reads the environment anew at
// each call, and what a worker's engine and instances inherit must not have it.
type manager struct{ socket string }

func newManager() manager {
	m := manager{socket: os.Getenv("NOTIFY_SOCKET")}
	_ = os.Unsetenv("NOTIFY_SOCKET") // fails for names with a = only
	return m
}

// env is what a program needs that continues in this process.
func (m manager) env() string { return "NOTIFY_SOCKET=" + m.socket }

// tell sends a state, for example "READY=1". It is lost where nobody listens.
func (m manager) tell(log *slog.Logger, state string) {
	if m.socket == "" {
		return
	}
	name := m.socket
	if strings.HasPrefix(name, "@") {
		name = "\x00" + name[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte(state))
		_ = c.Close() // a datagram has been sent, or not
	}
	if err != nil {
		log.Warn("the service manager cannot be told", "state", state, "error", err)
	}
}

// service is what a daemon needs around its role.
type service struct {
	log     *slog.Logger
	level   *slog.LevelVar
	manager manager
	process daemonflags.Process
}

// settled is how long after its start a role is taken to have begun all that it does.
const settled = 30 * time.Second

// settle gives back to the machine, once, what starting took in memory and idling does
// not need: below four megabytes the collector of garbage would never look, and of the program
// all that its packages begin with is mapped. From then on the collections are paced. end is
// called when the role ends.
func (s *service) settle(ctx context.Context, pace func(context.Context)) (end func()) {
	t := time.AfterFunc(settled, func() {
		debug.FreeOSMemory()
		if err := textpages.Release(); err != nil {
			s.log.Debug("more of the program stays in memory than it needs", "why", err)
		}
	})
	ctx, cancel := context.WithCancel(ctx)
	var pacing sync.WaitGroup
	pacing.Go(func() { pace(ctx) })
	return func() {
		t.Stop()
		cancel()
		pacing.Wait()
	}
}

// ready says that the role serves, and returns what says that it ends.
func (s *service) ready() (ending func()) {
	s.manager.tell(s.log, "READY=1")
	return func() { s.manager.tell(s.log, "STOPPING=1") }
}

// onReload reads the settings again at each SIGHUP until stop is called, which waits for the last
// of them. live are the settings that apply makes effective, within its context; for other changes
// it logs that a restart is needed.
func onReload[F any](ctx context.Context, s *service, live []string, apply func(context.Context, F)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				reload(ctx, s, live, apply)
			}
		}
	})
	return func() {
		signal.Stop(hangup)
		cancel()
		work.Wait()
	}
}

func reload[F any](ctx context.Context, s *service, live []string, apply func(context.Context, F)) {
	s.manager.tell(s.log, "RELOADING=1")
	defer s.manager.tell(s.log, "READY=1")
	flags, changed, err := s.process.Reread()
	if err != nil {
		s.log.Error("the settings cannot be read again; the former ones stay effective", "error", err)
		return
	}
	f, ok := flags.(F)
	if !ok {
		return // of another role: there is no such thing
	}
	var now, later []string
	for _, name := range changed {
		if name == "log-level" || slices.Contains(live, name) {
			now = append(now, name)
		} else {
			later = append(later, name)
		}
	}
	apply(ctx, f)
	s.log.Info("settings read again", "changed", strings.Join(now, " "))
	if len(later) > 0 {
		s.log.Warn("settings that a restart brings into force", "changed", strings.Join(later, " "))
	}
}

// setLevel changes the least level that is logged.
func (s *service) setLevel(text string) {
	if err := s.level.UnmarshalText([]byte(text)); err != nil {
		s.log.Error("log level", "error", err) // it was checked before
	}
}
