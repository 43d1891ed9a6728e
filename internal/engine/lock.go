package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/handover"
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

// lockOrInherit is lockDir, or takes the lock that the engine before has handed over.
func lockOrInherit(dir string, before *handover.Inheritance) (*dirLock, error) {
	if before == nil {
		return lockDir(dir)
	}
	f := before.Lock
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
	// A predecessor that was just told to end may need a moment. On a busy machine, so may a
	// process that a killed predecessor was starting.
	for try := 0; ; try++ {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &dirLock{file: f}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || try == lockTries {
			break
		}
		time.Sleep(lockPause)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another engine works in this directory: stop it first, or use another data directory")
	}
	return nil, fmt.Errorf("lock %s: %w", path, errors.Join(err, f.Close()))
}

const (
	lockFile  = "engine.lock"
	lockTries = 150
	lockPause = 20 * time.Millisecond
)
