package uplink_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/wire"
)

// FuzzTake: whatever a root sends, the cluster does not fall.
func FuzzTake(f *testing.F) {
	f.Add("share.app.web", []byte(`{"v":1,"app":"app","service":"web","min":2,"ordinals":[{"from":0,"to":2}],"spec":null}`), true)
	f.Add("share.other.x", []byte(`{"v":1,"app":"app","service":"web","min":9000000000,"ordinals":[{"from":-5,"to":2147483647}],"spec":{"command":["x"],"ports":[{}]}}`), false)
	f.Add("route.app.web", []byte(`{"app":"","service":"web","endpoints":[{"instance":"x","cluster":"far"}]}`), false)
	f.Add("share.app.web", []byte(`null`), false)
	f.Fuzz(func(t *testing.T, key string, value []byte, full bool) {
		c := clustertest.NewRunningCore(t)
		if err := uplink.FromRoot(c).Take(t.Context(), full, []wire.Change{{Key: key, Value: value}},
			wire.Rev{Inc: "root", N: 2}, nil); err != nil {
			return
		}
		_, _ = controller.Pass(t.Context(), c, time.Now(), true)
		_, _ = uplink.UpStatus(c, true)
		views.Apps(c.M)
	})
}
