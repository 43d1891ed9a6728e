package environment

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/engine/enginetest"

	"github.com/verge-edge/verge/internal/wire"
)

func TestInstancesAreToldOfTheirDevices(t *testing.T) {
	t.Parallel()
	o := enginetest.WithDevices(0, 1, 1000, 1, wire.Held{ID: "gpu1", Share: 1000},
		wire.Held{ID: "camera0", Share: 1000})
	env := deviceEnv(&o, enginetest.Nodes())
	for name, want := range map[string]string{
		"VERGE_DEVICES": "gpu1,camera0", "VERGE_DEVICE_GPU": "/dev/nvidia1:/dev/nvidiactl",
		"VERGE_DEVICE_CAMERA":    "/dev/video0",
		"NVIDIA_VISIBLE_DEVICES": "GPU-b", "CUDA_VISIBLE_DEVICES": "GPU-b",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if paths := strings.Join(Paths(Devices(&o, enginetest.Nodes())),
		" "); paths != "/dev/nvidia1 /dev/nvidiactl /dev/video0" {
		t.Errorf("a container gets %s", paths)
	}
	// Who has none is told so, or its library would take all; what the descriptor says counts.
	none := enginetest.WithDevices(1, 1, 0, 0)
	none.Spec.Env = map[string]string{"CUDA_VISIBLE_DEVICES": "0"}
	env = deviceEnv(&none, enginetest.Nodes())
	if _, set := env["CUDA_VISIBLE_DEVICES"]; set || env["NVIDIA_VISIBLE_DEVICES"] != "none" ||
		env["VERGE_DEVICES"] != "" {
		t.Errorf("without a device it gets %v", env)
	}
	if env := deviceEnv(&none, nil); len(env) != 0 {
		t.Errorf("on a worker without devices it gets %v", env)
	}
}
