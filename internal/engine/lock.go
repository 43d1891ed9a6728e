package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// dirLock is the lock of a data directory.
type dirLock struct {
	file *os.File
	kept bool // by a successor
}

// keep leaves the lock to a successor, which has the file too.
func (l *dirLock) keep() { l.kept = true }

// release gives the lock back. It may be called more than once.
func (l *dirLock) release() {
	if !l.kept {
		// Closing alone would leave the lock with a child that is being
		// started at this moment by another part of this process.
		_ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	}
	_ = l.file.Close()
}

// lock is lockDir, or takes the lock that the engine before has handed over.
func (e *Engine) lock() (*dirLock, error) {
	if e.opts.Inherited == nil {
		return lockDir(e.opts.Dir)
	}
	f := e.opts.Inherited.Lock
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("the engine before has handed over a lock that is not locked: %w", err)
	}
	return &dirLock{file: f}, nil
}

// lockDir makes sure that no other engine works in dir. A predecessor that was
// killed while starting a process holds the lock until that process runs its
// program, so that what it started can be found.
func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// A predecessor that was just told to end may need a moment.
	for try := 0; ; try++ {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &dirLock{file: f}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || try == 20 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another engine works in this directory; stop it first, or use another data directory")
	}
	return nil, fmt.Errorf("lock %s: %w", path, errors.Join(err, f.Close()))
}

const (
	lockFile = "engine.lock"
)
