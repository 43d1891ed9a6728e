//go:build !linux

package leftover

import "context"

// Register does nothing: workers run on Linux only.
func Register(string) (forget func(), err error) { return func() {}, nil }

// Find finds nothing: workers run on Linux only.
func Find(context.Context, Options) ([]Worker, error) { return nil, nil }

// Remove removes nothing.
func Remove(context.Context, Options, *Worker) error { return nil }
