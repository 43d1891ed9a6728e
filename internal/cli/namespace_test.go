package cli

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

// spaced is a world with namespaces.
func spaced() *resttest.Fake {
	f := world()
	f.Spaces = []apiv1.NamespaceView{
		{Name: "default", Used: wire.Quota{CPU: 1500, Memory: 3 << 30, Disk: 1 << 30, Instances: 4, Applications: 2}},
		{Name: "shop", Quota: wire.Quota{CPU: 4000, Memory: 8 << 30, Instances: 2},
			Used: wire.Quota{CPU: 500, Memory: 1 << 30, Instances: 3, Applications: 1}, Created: noon.AddDate(0, 0, -3),
			By: "admin/ann"},
		{Name: "empty"},
		{Name: "learn", Standing: wire.Standing{Weight: 4, MaxPriority: 50},
			Quota:  wire.Quota{VGPUs: 4000, Devices: map[string]int{"camera": 2}},
			Used:   wire.Quota{VGPUs: 1500, BandwidthIn: 10e6, Devices: map[string]int{"camera": 3, "lidar": 1}},
			Shares: []apiv1.NamespaceShare{{Cluster: "edge", Share: 0.375, Resource: "vgpus"}}},
	}
	for i := range f.Apps {
		f.Apps[i].Namespace = api.DefaultNamespace
	}
	f.Apps[0].Namespace = "shop"
	for i := range f.InstanceList {
		if f.InstanceList[i].Namespace = api.DefaultNamespace; f.InstanceList[i].App == f.Apps[0].Name {
			f.InstanceList[i].Namespace = "shop"
		}
	}
	return f
}

func TestNamespaceGolden(t *testing.T) {
	for name, line := range map[string]string{
		"namespace-ls":              "namespace ls",
		"namespace-get-wide":        "get ns -o wide",
		"namespace-ls-json":         "namespace ls -o json",
		"namespace-describe":        "describe namespace/shop",
		"namespace-create":          "namespace create bank --quota cpu=4,memory=8Gi,instances=50",
		"namespace-create-again":    "namespace create shop",
		"namespace-create-bad":      "namespace create bank --quota cpus=4",
		"namespace-create-twice":    "namespace create bank --quota cpu=4,cpu=5",
		"namespace-create-zero":     "namespace create bank --quota instances=0",
		"namespace-quota":           "namespace quota shop cpu=2,disk=10Gi,applications=3",
		"namespace-quota-none":      "namespace quota shop none",
		"namespace-quota-devices":   "namespace quota shop vgpus=1.5,vtpus=2,bandwidth-in=100Mbps,bandwidth-out=1Gbps",
		"namespace-quota-camera":    "namespace quota shop device.camera=2",
		"namespace-quota-gpu":       "namespace quota shop device.gpu=2",
		"namespace-standing":        "namespace standing shop weight=3,max-priority=100",
		"namespace-standing-none":   "namespace standing learn none",
		"namespace-standing-allow":  "namespace standing shop weight=3,allow=cap_net_raw+writable-root",
		"namespace-standing-hosts":  "namespace standing shop hosts=*.shop.test+Shop.test,ports=6000-6099+5432/tcp",
		"namespace-standing-host":   "namespace standing shop hosts=*.org",
		"namespace-standing-rights": "namespace standing shop allow=root",
		"namespace-standing-bad":    "namespace standing shop max-priority=1001",
		"namespace-standing-what":   "namespace standing shop priority=5",
		"namespace-create-claims":   "namespace create bank --standing max-priority=5",
		"namespace-describe-own":    "namespace standing learn",
		"namespace-rm":              "namespace rm empty",
		"namespace-rm-used":         "namespace rm shop",
		"namespace-get-apps":        "get apps -n shop",
		"namespace-get-instances":   "get instances -n default -o name",
		"namespace-get-both":        "get apps -n shop -A",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, spaced())
			args := strings.Fields(line)
			f.golden(name, f.run(args...), args...)
		})
	}
}

// Lists are of the context's namespace unless another is asked for; a name is
// found in any.
func TestNamespaceOfContext(t *testing.T) {
	f := newFixture(t, spaced())
	f.entry.Namespace = "shop"
	if err := client.WriteContext(f.env["VERGE_CONTEXT"], f.entry); err != nil {
		t.Fatal(err)
	}
	count := func(args ...string) int { return strings.Count(f.run(args...).stdout, "\n") }
	shop, all := count("get", "apps", "-o", "name"), count("get", "apps", "-A", "-o", "name")
	if shop != 1 || all != len(f.fake.Apps) || all < 2 {
		t.Errorf("%d of %d applications in the context's namespace", shop, all)
	}
	if n := count("get", "apps", "-n", "default", "-o", "name"); n != all-1 {
		t.Errorf("%d applications in default", n)
	}
	if r := f.run("get", "app/"+f.fake.Apps[1].Name); r.code != 0 {
		t.Errorf("an application of another namespace by its name: %+v", r)
	}
	if r := f.run("context", "use", f.env["VERGE_CONTEXT"], "--namespace", ""); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	f.env["VERGE_CONTEXT"] = ""
	if n := count("get", "apps", "-o", "name"); n != all {
		t.Errorf("%d applications with a context of no namespace", n)
	}
}
