package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
)

func TestWhomAFailureSpeaksAgainst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if b := BlameFor(ctx, BlameWorker); b != BlameWorker {
		t.Errorf("blame %v while the caller waits", b)
	}
	cancel()
	if b := BlameFor(ctx, BlameWorker); b != BlameSelf {
		t.Errorf("blame %v after the caller gave up", b)
	}
	behind := fmt.Errorf("refused: %w",
		&OpenError{Target: "a", Err: NotNowError{Err: errors.New("draining")}, NotNow: true})
	if !NotNow(behind) || NotNow(io.EOF) {
		t.Error("that the route is behind is not told from other failures")
	}
	if !OutOfResources(fmt.Errorf("dial: %w", syscall.EMFILE)) || OutOfResources(syscall.ECONNREFUSED) {
		t.Error("a limit of this machine is not told from a refusal")
	}
	for err, broken := range map[error]bool{
		&BrokenError{Err: errors.New("far")}: true, syscall.ECONNRESET: true, &UnsentError{Err: io.EOF}: true,
		ErrLate: false,
	} {
		if BrokenConn(err) != broken {
			t.Errorf("%v: a broken connection is %v", err, !broken)
		}
	}
}
