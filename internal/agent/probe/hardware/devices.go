package hardware

import (
	"bufio"
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/agent/engineconfig"
	"github.com/verge-edge/verge/internal/engineapi"
)

// Devices are the devices of this machine that instances may have: what is found,
// where probe says so, and what was set, which takes the place of what is found under
// the same paths. Each keeps the id that it had at the last start in dir. What is not
// there is named in missing and not offered: a camera that is unplugged must not keep
// a worker from starting.
func Devices(dir string, set []engineapi.DeviceNode, probe bool) (found []engineapi.DeviceNode, missing []string) {
	had, err := engineconfig.Read(dir)
	if err != nil {
		had.Devices = nil // a first start, or a file that the engine complains about
	}
	return DevicesOf("/", set, probe, had.Devices)
}

// DevicesOf is Devices below another root, with the devices of before.
func DevicesOf(root string, set []engineapi.DeviceNode, probe bool,
	had []engineapi.DeviceNode) (list []engineapi.DeviceNode, missing []string) {
	for _, d := range set {
		gone := slices.IndexFunc(d.Paths, func(p string) bool { return !present(root, p) })
		if gone >= 0 {
			missing = append(missing, "--device "+d.Type+": there is no "+d.Paths[gone]+"; plug it in, or leave the setting out")
			continue
		}
		list = append(list, d)
	}
	if probe {
		for _, d := range probeDevices(root) {
			if !slices.ContainsFunc(list, func(s engineapi.DeviceNode) bool { return slices.Contains(s.Paths, d.Paths[0]) }) {
				list = append(list, d)
			}
		}
	}
	if len(list) > api.MaxDevices {
		missing = append(missing,
			"there are "+strconv.Itoa(len(list))+" devices, the first "+strconv.Itoa(api.MaxDevices)+" are used")
		list = list[:api.MaxDevices]
	}
	identify(list, had)
	return list, missing
}

// identify gives each device the id that it had, and the others the first free
// numbers of their type.
func identify(list, had []engineapi.DeviceNode) {
	taken := map[string]bool{}
	for i := range list {
		list[i].ID = ""
		for k := range had {
			if h := &had[k]; h.ID != "" && !taken[h.ID] && SameDevice(&list[i], h) {
				list[i].ID = h.ID
				taken[h.ID] = true
				break
			}
		}
	}
	for i := range list {
		for n := 0; list[i].ID == ""; n++ {
			if id := list[i].Type + strconv.Itoa(n); !taken[id] {
				list[i].ID, taken[id] = id, true
			}
		}
	}
}

// Numbers of makers, as PCI has them.
var makers = map[string]string{"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}

// embedded are the kernel's drivers of graphics processors that are no cards.
var embedded = []string{"panfrost", "panthor", "lima", "v3d", "msm", "etnaviv"}

// probeDevices finds accelerators by what the kernel says below root, in an order that
// depends on the machine alone.
func probeDevices(root string) []engineapi.DeviceNode {
	nvidia := nvidiaCards(root)
	return slices.Concat(nvidia, renderNodes(root, len(nvidia) > 0), accelerators(root), corals(root))
}

// nvidiaCards are those that NVIDIA's driver has: it alone knows their nodes.
func nvidiaCards(root string) []engineapi.DeviceNode {
	var out []engineapi.DeviceNode
	for _, file := range glob(root, "proc/driver/nvidia/gpus/*/information") {
		says := map[string]string{}
		for sc := bufio.NewScanner(strings.NewReader(read(file))); sc.Scan(); {
			name, value, _ := strings.Cut(sc.Text(), ":")
			says[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
		minor, err := strconv.Atoi(says["Device Minor"])
		node := "/dev/nvidia" + strconv.Itoa(minor)
		if err != nil || !present(root, node) {
			continue // the driver has not made it, so nobody could open it
		}
		d := engineapi.DeviceNode{Vendor: "nvidia", Index: says["GPU UUID"], Paths: []string{node}}
		if !strings.HasPrefix(d.Index, "GPU-") || strings.Contains(d.Index, "?") { // the driver has not asked the card yet
			d.Index = strconv.Itoa(minor)
		}
		for _, shared := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"} {
			if present(root, shared) {
				d.Paths = append(d.Paths, shared)
			}
		}
		d.Type, d.Model = api.DeviceGPU, api.DeviceModel(says["Model"])
		out = append(out, d)
	}
	return out
}

// renderNodes are the graphics processors that the kernel's own drivers have; those
// of NVIDIA only where its driver has none.
func renderNodes(root string, nvidia bool) []engineapi.DeviceNode {
	var out []engineapi.DeviceNode
	amd := 0
	for _, dir := range glob(root, "sys/class/drm/renderD*") {
		node, dev := "/dev/dri/"+filepath.Base(dir), filepath.Join(dir, "device")
		vendor, class := read(filepath.Join(dev, "vendor")), read(filepath.Join(dev, "class"))
		d := engineapi.DeviceNode{Vendor: makers[vendor], Paths: []string{node}}
		d.Type = api.DeviceGPU
		driver := driverOf(dev)
		switch {
		case !present(root, node):
			continue
		case vendor == "" && slices.Contains(embedded, driver):
			d.Model = driver
		case d.Vendor == "" || d.Vendor == "nvidia" && nvidia:
			continue // the screen of a virtual machine or of a board controller
		case !strings.HasPrefix(class, "0x03") && !strings.HasPrefix(class, "0x12"): // display, accelerator
			continue
		default:
			d.Model = cmp.Or(api.DeviceModel(read(filepath.Join(dev, "product_name"))), pciModel(dev))
		}
		if d.Vendor == "amd" {
			d.Index = strconv.Itoa(amd)
			amd++
			if present(root, "/dev/kfd") {
				d.Paths = append(d.Paths, "/dev/kfd")
			}
		}
		out = append(out, d)
	}
	return out
}

// accelerators are those of the kernel's class for them, and tensor processors of
// virtual machines, which have it too.
func accelerators(root string) []engineapi.DeviceNode {
	var out []engineapi.DeviceNode
	for _, dir := range glob(root, "sys/class/accel/accel*") {
		name, dev := filepath.Base(dir), filepath.Join(dir, "device")
		node := "/dev/" + name
		if !present(root, node) {
			node = "/dev/accel/" + name
		}
		if !present(root, node) {
			continue
		}
		vendor := read(filepath.Join(dev, "vendor"))
		d := engineapi.DeviceNode{Vendor: makers[vendor], Paths: []string{node}}
		d.Type, d.Model = "npu", cmp.Or(pciModel(dev), driverOf(dev))
		if vendor == "0x1ae0" { // Google
			d.Type, d.Vendor = api.DeviceTPU, "google"
		}
		out = append(out, d)
	}
	return out
}

// corals are Google's edge tensor processors, on PCI and USB.
func corals(root string) []engineapi.DeviceNode {
	var out []engineapi.DeviceNode
	add := func(model, node string) {
		if present(root, node) {
			d := engineapi.DeviceNode{Vendor: "google", Paths: []string{node}}
			d.Type, d.Model = api.DeviceTPU, model
			out = append(out, d)
		}
	}
	for _, dir := range glob(root, "sys/class/apex/apex_*") {
		add("coral-edgetpu-pcie", "/dev/"+filepath.Base(dir))
	}
	for _, file := range glob(root, "sys/bus/usb/devices/*/idVendor") {
		dir := filepath.Dir(file)
		// Without firmware it is a device of its chip's maker; Google's afterwards.
		if id := read(file) + ":" + read(filepath.Join(dir, "idProduct")); id != "1a6e:089a" && id != "18d1:9302" {
			continue
		}
		bus, err1 := strconv.Atoi(read(filepath.Join(dir, "busnum")))
		dev, err2 := strconv.Atoi(read(filepath.Join(dir, "devnum")))
		if err1 == nil && err2 == nil {
			add("coral-edgetpu-usb", "/dev/bus/usb/"+padded(bus)+"/"+padded(dev))
		}
	}
	return out
}

func padded(n int) string { s := "00" + strconv.Itoa(n); return s[max(0, len(s)-3):] }

// pciModel is "vendor-device" in the numbers of PCI.
func pciModel(dev string) string {
	vendor, device := read(filepath.Join(dev, "vendor")), read(filepath.Join(dev, "device"))
	if vendor == "" || device == "" {
		return ""
	}
	return api.DeviceModel(strings.TrimPrefix(vendor, "0x") + "-" + strings.TrimPrefix(device, "0x"))
}

// driverOf is the name of the kernel's driver of a device.
func driverOf(dev string) string {
	for line := range strings.Lines(read(filepath.Join(dev, "uevent"))) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DRIVER="); ok {
			return name
		}
	}
	return ""
}

// glob is what there is of a pattern below root: by name, shorter ones first, so that
// renderD129 follows renderD128 and nvidia10 nvidia9.
func glob(root, pattern string) []string {
	list, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		return nil // the patterns are ours
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return list
}

// read is the text of a file of the kernel, "" where there is none.
func read(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // only read
	b := make([]byte, 4096)
	n, _ := f.Read(b) // what there is
	return string(bytes.TrimSpace(b[:n]))
}

func present(root, path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}

// SameDevice says whether two are one device, by what cannot change while it is plugged in.
func SameDevice(a, b *engineapi.DeviceNode) bool {
	return a.Type == b.Type && a.Vendor == b.Vendor && a.Index == b.Index && slices.Equal(a.Paths, b.Paths)
}
