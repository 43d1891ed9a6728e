package runtimetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty" // pseudo-terminals, which every system opens in another way

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// screen is what a terminal shows.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(lines(s.b.String()), text)
}

// lines is what a terminal shows, with plain ends of lines. Of two terminals behind one
// another both may end a line, while runc has not told the inner one yet to leave it.
func lines(shown string) string { return strings.ReplaceAll(shown, "\r", "") }

func testExecTerminal(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	task := start(t, d, s.spec(t, "block"))
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	resize := func(rows, columns uint16) {
		t.Helper()
		if err := pty.Setsize(ours, &pty.Winsize{Rows: rows, Cols: columns}); err != nil {
			t.Fatal(err)
		}
	}
	resize(10, 20)
	type end struct {
		exit wire.Exit
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		exit, err := task.Exec(t.Context(), runtime.Exec{
			// The size that it begins with may be a signal as well, which can end a read.
			Command: []string{"sh", "-c", `trap 'stty size' WINCH; trap 'exit 42' INT; test -t 0 && stty size
while :; do read -r line || continue; test "$line" = end && break; echo "got $line"; done
echo armed; while :; do sleep 0.02; done`},
			Env:   []string{"PATH=/usr/bin:/bin"},
			Stdin: theirs, Stdout: theirs, Stderr: theirs, Terminal: true,
		})
		_ = theirs.Close() // the reader ends with the last of its users
		ended <- end{exit, err}
	}()
	var out screen
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&out, ours) // a terminal's end is an error
		_ = ours.Close()
	}()
	see := func(text string) {
		t.Helper()
		eventually(t, text, func() bool { return out.shows(text) })
	}
	say := func(text string) {
		t.Helper()
		if _, err := io.WriteString(ours, text); err != nil {
			t.Fatal(err)
		}
	}
	see("10 20\n")
	say("hello\n")
	see("got hello\n")
	resize(33, 44)
	eventually(t, "33 44", func() bool {
		say("again\n") // a shell runs its trap after a line, and the signal may come after that
		return out.shows("33 44\n")
	})
	say("end\n")
	see("armed\n")
	say("\x03") // Ctrl-C reaches the foreground
	if e := <-ended; e.err != nil || e.exit.Code != 42 {
		t.Errorf("exit %+v, %v", e.exit, e.err)
	}
	<-read
}

// testTerminalSize: the first that a command sees of its terminal is its size, each time.
// One that is set after the command runs is late for some of them.
func testTerminalSize(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	task := start(t, d, s.spec(t, "block"))
	for n := range uint16(20) {
		ours, theirs, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		size := pty.Winsize{Rows: 10 + n, Cols: 100 + n}
		if err := pty.Setsize(ours, &size); err != nil {
			t.Fatal(err)
		}
		shown := make(chan string, 1)
		go func() {
			var out bytes.Buffer
			_, _ = io.Copy(&out, ours) // a terminal's end is an error
			shown <- out.String()
		}()
		exit, err := task.Exec(t.Context(), runtime.Exec{
			Command: []string{"stty", "size"}, Env: []string{"PATH=/usr/bin:/bin"},
			Stdin: theirs, Stdout: theirs, Stderr: theirs, Terminal: true,
		})
		_ = theirs.Close() // the reader ends with the last of its users
		got, want := lines(<-shown), fmt.Sprintf("%d %d\n", size.Rows, size.Cols)
		_ = ours.Close()
		if err != nil || exit.Code != 0 || got != want {
			t.Errorf("try %d: it shows %q, want %q (exit %+v, %v)", n, got, want, exit, err)
		}
	}
}

// testExecEnds: what runs beside a task ends when the task is killed, and when it
// is cleaned up after it has ended by itself.
func testExecEnds(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	for name, end := range map[string]func(*testing.T, runtime.Task){
		"killed": func(t *testing.T, task runtime.Task) { kill(t, task) },
		"over": func(t *testing.T, task runtime.Task) {
			if err := task.Signal(s.end()); err != nil {
				t.Fatal(err)
			}
			wait(t, task)
			cleanup(t, task)
		},
	} {
		t.Run(name, func(t *testing.T) {
			sp := shell(s.spec(t, ""), "exec sleep 1000")
			task := start(t, d, sp)
			pids := filepath.Join(sp.Dir, "pids")
			ended := make(chan error, 1)
			go func() {
				_, err := task.Exec(t.Context(), runtime.Exec{
					Command: []string{"sh", "-c", "trap '' TERM; echo $$ >>pids; sleep 1000 & echo $! >>pids; wait"},
					Env:     []string{"PATH=/usr/bin:/bin"},
				})
				ended <- err
			}()
			var text []byte
			eventually(t, "the command runs", func() bool {
				text, _ = os.ReadFile(pids)
				return strings.Count(string(text), "\n") == 2
			})
			end(t, task)
			s.checkDead(t, task, strings.Fields(string(text)))
			if err := <-ended; !errors.Is(err, runtime.ErrGone) {
				t.Errorf("the command's end: %v", err)
			}
		})
	}
}
