package wasm

import (
	"bytes"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/verge-edge/verge/internal/runtime/wasm/bytecode"
	"github.com/verge-edge/verge/internal/runtime/wasm/modulestore"
)

// What is loaded of a module is its shell, with the machine code of the module.
func TestMachineCodeIsLoadedWithAShell(t *testing.T) {
	for _, name := range []string{"hello", "echo", "handler"} {
		d := newDriver(t, Options{})
		d.library.disk.Least = 0
		x := startTask(t, d, specOf(t, testModule(t, name)))
		first, firstBody := ask(t, x, "POST", "/", "e")
		x.trim(0)
		unloadAll(t, d)
		binary, s, ok := d.library.disk.Loadable(x.digest)
		if !ok || s.Whole || len(s.Code) != 1 {
			t.Fatalf("%s: %+v, %v", name, s, ok)
		}
		module, err := os.ReadFile(testModule(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if module, _, err = bytecode.Bound(module); err != nil {
			t.Fatal(err)
		}
		// The module itself is not read any more.
		if err := os.Remove(d.library.disk.Path(x.digest, "module.wasm")); err != nil {
			t.Fatal(err)
		}
		again, againBody := ask(t, x, "POST", "/", "e")
		if first.StatusCode != 200 || again.StatusCode != 200 || len(firstBody) != len(againBody) {
			t.Errorf("%s: %s %q, from its machine code %s %q", name, first.Status, firstBody, again.Status, againBody)
		}
		other, err := bytecode.Shell(module, strings.Repeat("0", 64))
		if err != nil || bytes.Equal(other, binary) {
			t.Errorf("%s: two modules have the same shell, %v", name, err)
		}
		// A function of it does nothing but trap.
		rt := wazero.NewRuntime(t.Context())
		if _, err := rt.CompileModule(t.Context(), other); err != nil {
			t.Errorf("%s: its shell is no module: %v", name, err)
		}
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A library, or a processor, that does not find machine code that fits its seal
// compiles what it was given, which is the shell: that is never run.
func TestAShellIsNeverRun(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, d modulestore.Disk, digest string, s *modulestore.Seal){
		"another name": func(t *testing.T, d modulestore.Disk, digest string, s *modulestore.Seal) {
			to := filepath.Join(filepath.Dir(s.Code[0].Path), strings.Repeat("0", 64))
			if err := os.Rename(d.Path(digest, modulestore.CodeDir, s.Code[0].Path), d.Path(digest, modulestore.CodeDir, to)); err != nil {
				t.Fatal(err)
			}
			s.Code[0].Path = to
		},
		"another version": func(t *testing.T, d modulestore.Disk, digest string, s *modulestore.Seal) {
			path := d.Path(digest, modulestore.CodeDir, s.Code[0].Path)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[len("WAZEVO")+1] ^= 1 // the first letter of its version
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s.Code[0].CRC = crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, Options{})
			d.library.disk.Least = 0
			x := startTask(t, d, specOf(t, testModule(t, "hello")))
			if resp, _ := ask(t, x, "GET", "/", ""); resp.StatusCode != 200 {
				t.Fatal(resp.Status)
			}
			unloadAll(t, d)
			disk := d.library.disk
			s, err := disk.Seal(x.digest)
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, disk, x.digest, &s)
			if err := disk.Write(x.digest, s); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if resp, body := ask(t, x, "GET", "/", ""); resp.StatusCode != 200 || body != "hello\n" {
					t.Fatalf("%s: %s", resp.Status, body)
				}
				unloadAll(t, d)
			}
			if _, s, ok := disk.Loadable(x.digest); !ok || s.Whole || len(s.Code) != 1 {
				t.Errorf("its code was not made again: %+v, %v", s, ok)
			}
		})
	}
}

// A small module is loaded as a whole.
func TestASmallModuleHasNoShell(t *testing.T) {
	d := newDriver(t, Options{})
	x := startTask(t, d, specOf(t, testModule(t, "hello")))
	_, s, ok := d.library.disk.Loadable(x.digest)
	if _, err := os.Stat(d.library.disk.Path(x.digest, "shell.wasm")); !ok || !s.Whole || !os.IsNotExist(err) {
		t.Errorf("%+v, %v, %v", s, ok, err)
	}
	unloadAll(t, d)
	if resp, body := ask(t, x, "GET", "/", ""); resp.StatusCode != 200 || body != "hello\n" {
		t.Errorf("%s: %s", resp.Status, body)
	}
}
