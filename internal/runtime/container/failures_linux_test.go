package container

import (
	"errors"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/logfile"
)

// Images that say wrong of themselves how they are started.
func TestImagesWithoutTheirProgram(t *testing.T) {
	d, c := bench(t, containertest.Config{Entrypoint: []string{"/no/such/entrypoint"}})
	load(t, c, "verge.test/silent:1", containertest.Config{})
	load(t, c, "verge.test/data:1", containertest.Config{Entrypoint: []string{"/etc/passwd"}})
	load(t, c, "verge.test/nowhere:1", containertest.Config{Cmd: []string{"true"}, WorkingDir: "/etc/passwd/x"})
	load(t, c, "verge.test/nobody:1", containertest.Config{Cmd: []string{"true"}, User: "nobody-knows"})
	for image, says := range map[string]string{
		testImage:              "command not found: the image's command",
		"verge.test/silent:1":  "no command given, and the image verge.test/silent:1 has none",
		"verge.test/data:1":    "the image's command is not executable",
		"verge.test/nowhere:1": "the container did not start",
		"verge.test/nobody:1":  `user "nobody-knows", which the image says, is not one of it`,
	} {
		task, err := d.Start(t.Context(), specOf(t, image))
		if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, runtime.ErrAway) {
			t.Errorf("%s: %v, %v, want %q", image, task, err, says)
		}
	}
	empty(t, c)
}

// A program that ignores TERM goes on until it is killed, with all that it began; who
// asks for a command in what has ended is told so.
func TestStubbornContainer(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	s := specOf(t, testImage, "/bin/sh", "-c", "trap '' TERM; echo up; (trap '' TERM; while :; do sleep 1; done) & while :; do sleep 1; done")
	task, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has its trap", func() bool {
		log, err := logfile.Read(s.LogDir, 0, 0)
		return err == nil && string(log.Data) == "up\n"
	})
	for range 3 {
		if err := task.Signal("TERM"); err != nil {
			t.Fatal(err)
		}
	}
	// A command beside it is answered by a kernel that has handled the signals before.
	if e, err := task.Exec(t.Context(), runtime.Exec{Command: []string{"/bin/true"}}); err != nil || e.Code != 0 {
		t.Errorf("beside it: %+v, %v", e, err)
	}
	if err := task.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := exitOf(t, task); e.Signal != "KILL" {
		t.Errorf("%+v", e)
	}
	if _, err := task.Exec(t.Context(), runtime.Exec{Command: []string{"/bin/true"}}); !errors.Is(err, runtime.ErrGone) {
		t.Errorf("a command in what has ended: %v", err)
	}
	if err := task.Signal("TERM"); !errors.Is(err, runtime.ErrGone) {
		t.Errorf("a signal to what has ended: %v", err)
	}
	if err := task.Cleanup(); err != nil {
		t.Error(err)
	}
	empty(t, c)
}
