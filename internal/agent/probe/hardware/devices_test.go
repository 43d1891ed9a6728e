package hardware

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// described is a device in one line: id, model, vendor, index and paths.
func described(list []engineapi.DeviceNode) string {
	var out []string
	for _, d := range list {
		out = append(out, strings.Join([]string{d.ID, d.Type, d.Model, d.Vendor, d.Index, strings.Join(d.Paths, ":")}, " "))
	}
	return strings.Join(out, "\n")
}

func TestDevicesAreFound(t *testing.T) {
	const card = "Model: \t\t NVIDIA A10\nIRQ:   \t\t 44\nGPU UUID: \t GPU-5b1d\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t "
	pci := func(dir, vendor, device, class string) map[string]string {
		return map[string]string{dir + "/vendor": vendor + "\n", dir + "/device": device + "\n", dir + "/class": class + "\n"}
	}
	join := func(all ...map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range all {
			for k, v := range m {
				out[k] = v
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing": {nil, ""},
		"nvidia": {map[string]string{
			"proc/driver/nvidia/gpus/0000:3b:00.0/information": card + "1\n", "dev/nvidia1": "",
			"proc/driver/nvidia/gpus/0000:1a:00.0/information": strings.ReplaceAll(card, "GPU-5b1d", "GPU-????") + "0\n", "dev/nvidia0": "",
			"dev/nvidiactl": "", "dev/nvidia-uvm": "",
		}, "gpu0 gpu nvidia-a10 nvidia 0 /dev/nvidia0:/dev/nvidiactl:/dev/nvidia-uvm\ngpu1 gpu nvidia-a10 nvidia GPU-5b1d /dev/nvidia1:/dev/nvidiactl:/dev/nvidia-uvm"},
		"nvidia without a node": {map[string]string{"proc/driver/nvidia/gpus/0000:3b:00.0/information": card + "1\n"}, ""},
		"amd, and its order": {join(pci("sys/class/drm/renderD129/device", "0x1002", "0x73bf", "0x030000"), pci("sys/class/drm/renderD128/device", "0x1002", "0x740f", "0x120000"),
			map[string]string{"dev/dri/renderD128": "", "dev/dri/renderD129": "", "dev/kfd": "", "sys/class/drm/renderD128/device/product_name": "AMD Instinct MI210\n"}),
			"gpu0 gpu amd-instinct-mi210 amd 0 /dev/dri/renderD128:/dev/kfd\ngpu1 gpu 1002-73bf amd 1 /dev/dri/renderD129:/dev/kfd"},
		"intel": {join(pci("sys/class/drm/renderD128/device", "0x8086", "0x46a6", "0x030000"), map[string]string{"dev/dri/renderD128": ""}),
			"gpu0 gpu 8086-46a6 intel  /dev/dri/renderD128"},
		"the screen of a virtual machine": {join(pci("sys/class/drm/renderD128/device", "0x1af4", "0x1050", "0x030000"), map[string]string{"dev/dri/renderD128": ""}), ""},
		"a board": {map[string]string{"sys/class/drm/renderD128/device/uevent": "DRIVER=v3d\nOF_NAME=v3d\n", "dev/dri/renderD128": ""},
			"gpu0 gpu v3d   /dev/dri/renderD128"},
		"tensor processors": {join(pci("sys/class/accel/accel0/device", "0x1ae0", "0x0056", "0x120000"), pci("sys/class/accel/accel1/device", "0x8086", "0x7d1d", "0x120000"), map[string]string{
			"dev/accel0": "", "dev/accel/accel1": "", "sys/class/apex/apex_0/dev": "", "dev/apex_0": "",
			"sys/bus/usb/devices/2-1/idVendor": "18d1\n", "sys/bus/usb/devices/2-1/idProduct": "9302\n", "sys/bus/usb/devices/2-1/busnum": "2\n", "sys/bus/usb/devices/2-1/devnum": "17\n",
			"dev/bus/usb/002/017": "", "sys/bus/usb/devices/2-2/idVendor": "046d\n", "sys/bus/usb/devices/2-2/idProduct": "0825\n",
		}), "tpu0 tpu 1ae0-0056 google  /dev/accel0\nnpu0 npu 8086-7d1d intel  /dev/accel/accel1\ntpu1 tpu coral-edgetpu-pcie google  /dev/apex_0\ntpu2 tpu coral-edgetpu-usb google  /dev/bus/usb/002/017"},
		"nonsense": {map[string]string{"proc/driver/nvidia/gpus/x/information": "\x00\xff:::\nDevice Minor: -1x\n", "sys/bus/usb/devices/1/idVendor": "1a6e", "sys/bus/usb/devices/1/idProduct": "089a", "sys/bus/usb/devices/1/busnum": "../../etc"}, ""},
	} {
		list, missing := DevicesOf(machine(t, c.files), nil, true, nil)
		if got := described(list); got != c.want || len(missing) > 0 {
			t.Errorf("%s:\n%s\nwant\n%s\n%v", name, got, c.want, missing)
		}
	}
}

// A device keeps its id when another is taken out, and what is set counts before what
// is found.
func TestDevicesKeepTheirIDs(t *testing.T) {
	video := func(n string, model string) engineapi.DeviceNode {
		return engineapi.DeviceNode{Device: wire.Device{Type: "camera", Model: model}, Paths: []string{"/dev/video" + n}}
	}
	files := map[string]string{"dev/video0": "", "dev/video1": "", "dev/video2": ""}
	root := machine(t, files)
	had, _ := DevicesOf(root, []engineapi.DeviceNode{video("0", ""), video("1", "")}, true, nil)
	if got := described(had); got != "camera0 camera    /dev/video0\ncamera1 camera    /dev/video1" {
		t.Fatal(got)
	}
	now, missing := DevicesOf(root, []engineapi.DeviceNode{video("2", ""), video("1", "hd"), video("7", "")}, true, had)
	if got := described(now); got != "camera0 camera    /dev/video2\ncamera1 camera hd   /dev/video1" {
		t.Error(got)
	}
	if len(missing) != 1 || !strings.Contains(missing[0], "there is no /dev/video7") {
		t.Errorf("missing: %v", missing)
	}
	accel := map[string]string{"sys/class/apex/apex_0/dev": "", "dev/apex_0": ""}
	own := engineapi.DeviceNode{Device: wire.Device{Type: "tpu", Model: "mine"}, Paths: []string{"/dev/apex_0"}}
	if list, _ := DevicesOf(machine(t, accel), []engineapi.DeviceNode{own}, true, nil); described(list) != "tpu0 tpu mine   /dev/apex_0" {
		t.Error(described(list))
	}
	if list, _ := DevicesOf(machine(t, accel), nil, false, nil); len(list) != 0 {
		t.Errorf("it was not to be looked for: %s", described(list))
	}
}

func TestBandwidthIsFound(t *testing.T) {
	const routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\neth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\neth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	any6 := strings.Repeat("0", 32)
	for name, c := range map[string]struct {
		files map[string]string
		want  api.Bitrate
	}{
		"ipv4":       {map[string]string{"proc/net/route": routes, "sys/class/net/eth0/speed": "1000\n"}, 950_000_000},
		"not known":  {map[string]string{"proc/net/route": routes, "sys/class/net/eth0/speed": "-1\n"}, 0},
		"impossible": {map[string]string{"proc/net/route": routes, "sys/class/net/eth0/speed": "99999999999\n"}, 0},
		"ipv6 alone": {map[string]string{"proc/net/ipv6_route": any6 + " 00 " + any6 + " 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth2\n", "sys/class/net/eth2/speed": "100\n"}, 95_000_000},
		"none":       {nil, 0},
	} {
		if got := bandwidthOf(machine(t, c.files), 0.05); got != (api.Bandwidth{In: c.want, Out: c.want}) {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

// machine makes a root with the files of a machine, as path → content.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
