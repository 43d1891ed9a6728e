package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/runtimetest"
)

// testImage is busybox with this test's program.
const testImage = "verge.test/program:1"

var suite = runtimetest.Suite{
	Name: "containerd",
	New: func(base string) (runtime.Driver, error) {
		return New(Options{Base: base, Address: os.Getenv(containertest.AddressVar)}), nil
	},
	Contain: func(s *runtime.Spec) {
		s.Container = &runtime.Container{Image: testImage, Security: runtime.Security{Capabilities: api.DefaultCapabilities()}, Mounts: []runtime.Mount{{Source: s.Dir, Target: s.Dir}}}
	},
}

func TestMain(m *testing.M) { runtimetest.Main(m, suite) }

func TestConformance(t *testing.T) {
	prepared(t)
	suite.Run(t)
}

// prepared starts a containerd that has the image of the tests.
func prepared(t testing.TB) *containertest.Containerd {
	t.Helper()
	c := containertest.Need(t)
	t.Setenv(containertest.AddressVar, c.Address)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	load(t, c, testImage, containertest.Config{Cmd: []string{"/bin/sh", "-c", "echo from the image; exit 3"}}, self)
	return c
}

// load builds an image and imports it.
func load(t testing.TB, c *containertest.Containerd, name string, config containertest.Config, programs ...string) {
	t.Helper()
	image, err := containertest.Build(config, programs...)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := containertest.Save(path, name, image); err != nil {
		t.Fatal(err)
	}
	if err := importFile(c.Address, path); err != nil {
		t.Fatal(err)
	}
}

func importFile(address, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	d := New(Options{Address: address})
	defer d.Close()
	names, err := d.Load(context.Background(), f, "")
	if err != nil {
		return err
	}
	if len(names) != 1 {
		return fmt.Errorf("%d images in %s", len(names), path)
	}
	return nil
}
