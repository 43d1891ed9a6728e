package ocispec

import (
	"maps"
	goruntime "runtime"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Of an image without programs of 32 bits the list has what machines of 64 know, and all
// of that.
func TestCallsOfOtherMachines(t *testing.T) {
	names := func(narrow bool) map[string]bool {
		t.Helper()
		spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}, Linux: &specs.Linux{}}
		if err := WithSeccomp(narrow, false)(t.Context(), nil, nil, spec); err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		for _, rule := range spec.Linux.Seccomp.Syscalls {
			for _, n := range rule.Names {
				out[n] = true
			}
		}
		return out
	}
	all, few, old := names(false), names(true), oldCalls()
	if _, ok := ownArch[goruntime.GOARCH]; !ok {
		if !maps.Equal(all, few) {
			t.Error("on this machine all of them count")
		}
		return
	}
	for n := range all {
		if few[n] == old[n] {
			t.Errorf("%s: %v", n, few[n])
		}
	}
	for n := range old {
		if !all[n] {
			t.Errorf("%s is not in the list any more", n)
		}
	}
	for _, n := range []string{"read", "openat", "clone", "socket", "pwrite64", "newfstatat", "getrandom", "futex"} {
		if !few[n] {
			t.Errorf("%s is left out", n)
		}
	}
}
