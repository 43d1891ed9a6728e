package daemonflags

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
)

func TestDeviceFlags(t *testing.T) {
	list, probe, err := deviceFlags([]string{"camera=/dev/video0",
		"gpu=/dev/dri/renderD128:/dev/kfd,model=AMD MI210,count=2"})
	if err != nil || !probe || len(list) != 3 {
		t.Fatalf("%+v %v %v", list, probe, err)
	}
	if d := list[2]; d.Type != "gpu" || d.Model != "amd-mi210" ||
		strings.Join(d.Paths, " ") != "/dev/dri/renderD128 /dev/kfd" {
		t.Errorf("%+v", d)
	}
	if list, probe, err := deviceFlags([]string{"none"}); err != nil || probe || list != nil {
		t.Errorf("none: %v %v %v", list, probe, err)
	}
	for _, bad := range []string{
		"", "gpu", "gpu=", "gpu=dev/x", "=/dev/x", "GPU=/dev/x", "gpu=/dev/x,", "gpu=/dev/x,model=",
		"gpu=/dev/x,count=0", "gpu=/dev/x,count=-1",
		"gpu=/dev/x,count=65", "gpu=/dev/x,count=1e3", "gpu=/dev/x,colour=red", "gpu=/dev/x:",
		strings.Repeat("g", 62) + "=/dev/x",
	} {
		if _, _, err := deviceFlags([]string{bad}); err == nil || !strings.Contains(err.Error(), "--device") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, _, err := deviceFlags([]string{"a=/x,count=40", "b=/x,count=40"}); err == nil {
		t.Error("80 devices are accepted")
	}
}

func TestBandwidthFlag(t *testing.T) {
	for text, want := range map[string]api.Bandwidth{
		"1Gbps": {In: 1e9, Out: 1e9}, "in=100Mbps,out=20Mbps": {In: 1e8, Out: 2e7}, "out=1Mbps": {Out: 1e6}, "none": {},
		"auto": {},
	} {
		b, probe, err := bandwidthFlag(text)
		if err != nil || b != want || probe != (text == "auto") {
			t.Errorf("%s: %+v %v %v", text, b, probe, err)
		}
	}
	for _, bad := range []string{"", "fast", "-1Mbps", "0bps", "in=1Mbps,in=2Mbps", "1Mbps,2Mbps", "up=1Mbps", "NaNbps",
		"2000Gbps", "in=1Mbps,"} {
		if _, _, err := bandwidthFlag(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
