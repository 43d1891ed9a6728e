//go:build unix && !linux

package cgroup

import (
	"context"
	"os"
	"syscall"
)

// Manager of a system without control groups: it makes none.
type Manager struct{}

// Detect returns a Manager that makes no groups.
func Detect(string) *Manager { return &Manager{} }

// DetectV2 is the same as Detect here.
func DetectV2(string) *Manager { return &Manager{} }

// DetectTop returns a Manager that makes no groups.
func DetectTop(string) *Manager { return &Manager{} }

// Inner is "".
func (*Manager) Inner(string) string { return "" }

// Disabled is the same as Detect here.
func Disabled(string) *Manager { return &Manager{} }

// Missing says that limits are not enforced.
func (*Manager) Missing() string {
	return "no control groups (this system has none): limits are not enforced"
}

// Has is false.
func (*Manager) Has(string) bool { return false }

// Close does nothing.
func (*Manager) Close() {}

// Create returns ErrUnavailable.
func (*Manager) Create(string, Limits) (*Group, error) { return nil, ErrUnavailable }

// Load returns ErrUnavailable.
func (*Manager) Load(string) (*Group, error) { return nil, ErrUnavailable }

// Groups returns none.
func (*Manager) Groups() ([]*Group, error) { return nil, nil }

// Group is never made.
type Group struct{}

// Path is "".
func (*Group) Path() string { return "" }

// Fork calls fork.
func (*Group) Fork(_ *syscall.SysProcAttr, fork func() error) error { return fork() }

// Entries opens nothing.
func (*Group) Entries() ([]*os.File, error) { return nil, nil }

// PIDs returns none.
func (*Group) PIDs() ([]int, error) { return nil, nil }

// Kill does nothing.
func (*Group) Kill(context.Context) error { return nil }

// Remove does nothing.
func (*Group) Remove(context.Context) error { return nil }

// OOMKills is 0.
func (*Group) OOMKills() int64 { return 0 }

// Usage is not known.
func (*Group) Usage() Usage { return Usage{CPU: -1, Memory: -1, PIDs: -1} }

// Sub returns ErrUnavailable.
func (*Group) Sub(string) (born, own *Group, err error) { return nil, nil, ErrUnavailable }

// RemoveSubs does nothing.
func (*Group) RemoveSubs(context.Context) error { return nil }

// SubName is "".
func (*Group) SubName() string { return "" }
