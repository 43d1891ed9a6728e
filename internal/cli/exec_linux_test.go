package cli

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A terminal is raw while the program runs, and as it was before after every end;
// what is pressed and how large it is goes to the program.
func TestExecOnATerminal(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(p *program, keys *os.File, stop func())
		code int
	}{
		{"the program ends", func(p *program, _ *os.File, _ func()) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.over = true
			close(p.changed)
			p.changed = make(chan struct{})
		}, 5},
		{"a signal", func(_ *program, _ *os.File, stop func()) { stop() }, 130},
		{"SIGHUP", func(*program, *os.File, func()) { _ = unix.Kill(os.Getpid(), unix.SIGHUP) }, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys, line, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = keys.Close(), line.Close() }()
			if err := pty.Setsize(keys, &pty.Winsize{Rows: 33, Cols: 111}); err != nil {
				t.Fatal(err)
			}
			lineMode := func() uint32 {
				t.Helper()
				mode, err := unix.IoctlGetTermios(int(line.Fd()), unix.TCGETS)
				if err != nil {
					t.Fatal(err)
				}
				return mode.Lflag
			}
			before := lineMode()
			p := &program{exit: &wire.Exit{Code: 5}}
			f := execFixture(t, p)
			f.env["TERM"] = "vt100"
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			code := make(chan int, 1)
			go func() {
				code <- Main(ctx, []string{"exec", "guestbook.store", "-it", "--", "sh"}, line, &bytes.Buffer{},
					&bytes.Buffer{},
					Options{Getenv: func(k string) string { return f.env[k] }})
			}()
			until := func(what string, ok func() bool) {
				t.Helper()
				tick, deadline := time.NewTicker(time.Millisecond), time.After(10*time.Second)
				defer tick.Stop()
				for {
					p.mu.Lock()
					done := ok()
					p.mu.Unlock()
					if done {
						return
					}
					select {
					case <-tick.C:
					case <-deadline:
						t.Fatalf("not in time: %s", what)
					}
				}
			}
			until("raw", func() bool { return lineMode()&(unix.ICANON|unix.ISIG) == 0 })
			if _, err := keys.WriteString("q\x03"); err != nil {
				t.Fatal(err)
			}
			until("keys", func() bool { return string(p.out) == "Q\x03" })
			if p.sizes[0] != (rpc.Terminal{Rows: 33, Columns: 111, Type: "vt100"}) {
				t.Errorf("the terminal is %+v", p.sizes[0])
			}
			if err := pty.Setsize(keys, &pty.Winsize{Rows: 20, Cols: 60}); err != nil {
				t.Fatal(err)
			}
			// Ours is not the terminal of this process: nobody else would tell it.
			until("another size", func() bool {
				_ = unix.Kill(os.Getpid(), unix.SIGWINCH)
				return p.sizes[len(p.sizes)-1].Rows == 20
			})
			c.end(p, keys, stop)
			if got := <-code; got != c.code {
				t.Errorf("exit %d", got)
			}
			if after := lineMode(); after != before {
				t.Errorf("the terminal is left in another mode: %x, before %x", after, before)
			}
			_, _ = keys.WriteString("\n") // lets go of the reader
		})
	}
}
