package onthread

import (
	"errors"
	"io/fs"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Each f has a thread, which is never the first one of the process.
func TestDo(t *testing.T) {
	var all sync.WaitGroup
	var threads sync.Map
	const many = 64
	var running sync.WaitGroup
	running.Add(many)
	for range many {
		all.Go(func() {
			err := Do(func() error {
				if _, twice := threads.LoadOrStore(unix.Gettid(), true); twice || unix.Gettid() == unix.Getpid() {
					t.Errorf("f runs on thread %d, of another f: %v", unix.Gettid(), twice)
				}
				running.Done()
				running.Wait()
				return fs.ErrExist
			})
			if !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := InNetwork("/nowhere", func() error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a namespace that is not there: %v", err)
	}
}
