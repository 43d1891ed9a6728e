package place

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// What clients are told says what is lacking, and nothing of what there is.
func TestForClients(t *testing.T) {
	view := WorkerView{ID: "w1", Runtimes: []string{"process"}, Capacity: api.Resources{CPU: 1000, Memory: 2 << 30}, Used: api.Resources{CPU: 400}}
	for want, change := range map[string]func(*Request){
		"there is no room for an instance, which needs 9Gi memory": func(r *Request) { r.Demand.Memory = 9 << 30 },
		"there is no room for an instance, which needs 700m cpu":   func(r *Request) { r.Demand.CPU = 700 },
		"no worker is as its instances need it":                    func(r *Request) { r.Runtime = "vm" },
	} {
		req := Request{Instance: "a.b.0", Count: 1, Runtime: "process"}
		change(&req)
		d := Schedule([]WorkerView{view}, req)
		got := ForClients(d.Reason)
		if d.Chosen != "" || got != want || strings.Contains(got, "w1") || strings.Contains(got, "free") {
			t.Errorf("of %q clients are told %q, want %q", d.Reason, got, want)
		}
		c := RankClusters([]ClusterView{{ID: "edge", Connected: true, Runtimes: []string{"process"}, Aggregate: describedBy(view)}}, req)
		if got := ForClients(c.Reason); got != want {
			t.Errorf("of %q clients are told %q, want %q", c.Reason, got, want)
		}
	}
	if got := ForClients(""); got != "" {
		t.Errorf("of nothing they are told %q", got)
	}
	if got := ForClients("2 workers: 2 failed it lately; it failed because: not started: /opt/secret: no such file"); strings.Contains(got, "secret") || got == "" {
		t.Errorf("of a failure they are told %q", got)
	}
}

// describedBy is what a cluster of one worker says of itself.
func describedBy(v WorkerView) (a wire.Aggregate) {
	views := []WorkerView{v}
	a = Aggregate(views)
	a.Runtimes = v.Runtimes
	Describe(views, &a)
	return a
}
