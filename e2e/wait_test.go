package e2e

import (
	"fmt"
	"testing"
	"time"
)

// pollEvery is how often a condition is looked at, and after a while every seldomPoll: a
// look at all processes of the machine takes a millisecond, and five worlds wait at once.
const (
	pollEvery  = 50 * time.Millisecond
	seldomPoll = 200 * time.Millisecond
)

// await calls check until it returns nil or the timeout is over, and returns its
// last error.
func await(timeout time.Duration, check func() error) error {
	begin := time.Now()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for n := 1; ; n++ {
		err := check()
		if err == nil || time.Since(begin) > timeout {
			return err
		}
		if n == 40 {
			ticker.Reset(seldomPoll)
		}
		<-ticker.C
	}
}

// slack is how much more time everything gets than a machine needs that has nothing
// else to do: how fast Verge is, is measured elsewhere.
const slack = 4

// eventually fails the test if what check wants does not come true in time.
func eventually(t *testing.T, timeout time.Duration, what string, check func() error) {
	t.Helper()
	begin := time.Now()
	if err := await(slack*timeout, check); err != nil {
		t.Fatalf("after %s it is not so that %s: %v", time.Since(begin).Round(time.Millisecond), what, err)
	}
}

// throughout fails the test if check fails at any time within d.
func throughout(t *testing.T, d time.Duration, what string, check func() error) {
	t.Helper()
	begin := time.Now()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for time.Since(begin) < d {
		if err := check(); err != nil {
			t.Fatalf("after %s it is no longer so that %s: %v", time.Since(begin).Round(time.Millisecond), what, err)
		}
		<-ticker.C
	}
}

// must ends the test at an error.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func differs[T comparable](what string, got, want T) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s: %v, not %v", what, got, want)
}
