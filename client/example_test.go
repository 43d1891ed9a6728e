package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// The examples ask a server made of plain data; a program begins as Example does.
func begin(f *resttest.Fake) (c *client.Client, ctx context.Context, end func()) {
	admin, stop := resttest.ServeExample(f)
	c, err := client.New(admin)
	if err != nil {
		log.Fatal(err)
	}
	return c, context.Background(), func() { c.Close(); stop() }
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A context is read from the file that a root or cluster writes for its administrator.
func Example() {
	where, err := client.ReadContext("/var/lib/verge/root/context.yaml")
	if err != nil {
		fmt.Println("no context:", errors.As(err, new(*client.Problem)))
		return
	}
	c, err := client.New(where)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	status, err := c.System.Status(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(status.Name)
	// Output: no context: true
}

func ExampleProblem() {
	c, ctx, end := begin(&resttest.Fake{})
	defer end()
	_, err := c.Applications.Get(ctx, "shop")
	var p *client.Problem
	if errors.As(err, &p) {
		fmt.Println(p.Status, p.Code)
	}
	// Output: 404 not-found
}

func ExampleClient_Watch() {
	c, ctx, end := begin(&resttest.Fake{InstanceData: resttest.InstanceData{InstanceList: []client.Instance{{Instance: client.InstanceRecord{ID: "shop.web.0"}}}}})
	defer end()
	for e, err := range c.Watch(ctx, client.WatchInstances, client.WatchWorkers) {
		check(err)
		fmt.Println(strings.TrimSpace(e.Type + " " + e.Key))
		if e.Type == "synced" { // from here on there are changes
			break
		}
	}
	// Output:
	// begin
	// put shop.web.0
	// synced
}

func ExampleApplications() {
	c, ctx, end := begin(&resttest.Fake{
		ApplicationData: resttest.ApplicationData{
			ApplyAnswer: client.ApplyResult{Name: "shop", Revision: 1, Change: "created"},
			Apps:        []client.Application{{Name: "shop", Holds: true}},
		},
	})
	defer end()
	r, err := c.Applications.Apply(ctx, []byte("application: shop\nservices: {web: {command: [serve]}}\n"), false)
	check(err)
	fmt.Println(r.Name, r.Change)
	app, err := c.Applications.Get(ctx, r.Name)
	check(err)
	fmt.Println("ready:", app.Holds)
	// Output:
	// shop created
	// ready: true
}

func ExampleServices() {
	c, ctx, end := begin(&resttest.Fake{
		ApplicationData: resttest.ApplicationData{
			Apps:        []client.Application{{Name: "shop", Services: []client.ServiceView{{Name: "web", Wanted: 1}}}},
			ApplyAnswer: client.ApplyResult{Name: "shop", Change: "updated"},
		},
	})
	defer end()
	r, err := c.Services.Scale(ctx, "shop", "web", 3)
	check(err)
	fmt.Println(r.Change)
	// Output: updated
}

func ExampleRollouts() {
	c, ctx, end := begin(&resttest.Fake{ApplicationData: resttest.ApplicationData{RolloutAnswer: client.Rollout{Name: "shop", Services: []client.ServiceRollout{{Name: "web", Phase: "rolling"}}}}})
	defer end()
	r, err := c.Rollouts.Pause(ctx, "shop", client.RolloutRequest{Service: "web"})
	check(err)
	fmt.Println(r.Services[0].Name, r.Services[0].Phase)
	// Output: web paused
}

func ExampleJobs() {
	c, ctx, end := begin(&resttest.Fake{
		ApplicationData: resttest.ApplicationData{
			Apps:      []client.Application{{Name: "shop", Services: []client.ServiceView{{Name: "report"}}}},
			JobAnswer: client.JobResult{N: 4},
		},
	})
	defer end()
	r, err := c.Jobs.Do(ctx, "shop", "report", client.JobRequest{Action: "run"})
	check(err)
	fmt.Println(r.Name, "run", r.N)
	// Output: shop.report run 4
}

func ExampleProfiles() {
	c, ctx, end := begin(&resttest.Fake{ApplicationData: resttest.ApplicationData{Apps: []client.Application{{Name: "shop"}}}})
	defer end()
	const run = "a-random-key"
	_, err := c.Profiles.Start(ctx, "shop", "web", client.ProfileLoad{Key: run})
	check(err)
	r, err := c.Profiles.Look(ctx, "shop", "web", run)
	check(err)
	fmt.Println(r.State)
	// Output: running
}

func ExampleInstances() {
	c, ctx, end := begin(&resttest.Fake{
		InstanceData: resttest.InstanceData{
			InstanceList: []client.Instance{{Instance: client.InstanceRecord{ID: "shop.web.0", App: "shop", Service: "web", Worker: "w1"}}},
			LogText:      map[string]string{"shop.web.0": "listening\n"},
		},
	})
	defer end()
	list, err := c.Instances.List(ctx, "shop", "web")
	check(err)
	for _, i := range list {
		fmt.Println(i.ID, "on", i.Worker)
	}
	for chunk, err := range c.Instances.FollowLogs(ctx, "shop.web.0", client.LogRequest{Max: 4096}) {
		check(err)
		fmt.Print(string(chunk.Data))
		break
	}
	// Output:
	// shop.web.0 on w1
	// listening
}

func ExampleExec() {
	c, ctx, end := begin(&resttest.Fake{
		InstanceData: resttest.InstanceData{
			InstanceList: []client.Instance{{Instance: client.InstanceRecord{ID: "shop.web.0"}}},
			ExecStep: func(_ context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
				if q.Output != nil {
					return rpc.ExecAnswer{Output: &client.ExecOutput{Stdout: []byte("hello\n")}}, nil
				}
				return rpc.ExecAnswer{Session: "s.edge.w1.shop.web.0"}, nil
			},
		},
	})
	defer end()
	session, err := c.Exec.Start(ctx, "shop.web.0", client.ExecStart{Command: []string{"echo", "hello"}})
	check(err)
	out, err := c.Exec.Read(ctx, session, 0, 0, 20*time.Second)
	check(err)
	fmt.Print(string(out.Stdout))
	check(c.Exec.End(ctx, session))
	// Output: hello
}

func ExampleEvents() {
	c, ctx, end := begin(&resttest.Fake{EventList: []client.Event{{Seq: 7, Subject: "instance/shop.web.0", What: "is ready"}}})
	defer end()
	for e, err := range c.Events.Follow(ctx, 0) {
		check(err)
		fmt.Println(e.Seq, e.Subject, e.What)
		break
	}
	// Output: 7 instance/shop.web.0 is ready
}

func ExampleClusters() {
	c, ctx, end := begin(&resttest.Fake{NodeData: resttest.NodeData{ClusterList: []client.Cluster{{Name: "edge"}}}})
	defer end()
	cordon, err := c.Clusters.Cordon(ctx, "edge", client.CordonRequest{Reason: "moving house", Drain: true})
	check(err)
	fmt.Println(cordon.Why, cordon.Drain)
	// Output: moving house true
}

func ExampleWorkers() {
	c, ctx, end := begin(&resttest.Fake{NodeData: resttest.NodeData{WorkerList: []client.Worker{{Cluster: "edge", WorkerInfo: client.WorkerInfo{Name: "w1"}, Status: "ready"}}}})
	defer end()
	list, err := c.Workers.List(ctx)
	check(err)
	for _, w := range list {
		fmt.Println(w.Cluster, w.Name, w.Status)
	}
	check(c.Workers.Remove(ctx, "edge", "w1", false))
	// Output: edge w1 ready
}

func ExampleVolumes() {
	data := client.VolumeRef{Namespace: "default", Instance: "shop.db.0", Name: "data"}
	c, ctx, end := begin(&resttest.Fake{StorageData: resttest.StorageData{VolumeList: []client.Volume{{Cluster: "edge", Worker: "w1", VolumeRef: data, InUse: true}}}})
	defer end()
	check(c.Volumes.Move(ctx, "edge", "w1", data, client.VolumeMoveRequest{To: "w2"}))
	list, err := c.Volumes.List(ctx, "edge", "w2")
	check(err)
	fmt.Println(list[0].Name, "of", list[0].Instance)
	// Output: data of shop.db.0
}

func ExampleNamespaces() {
	c, ctx, end := begin(&resttest.Fake{})
	defer end()
	_, err := c.Namespaces.Create(ctx, client.NamespaceRequest{Name: "shop", Quota: client.Quota{Applications: 3}})
	check(err)
	n, err := c.Namespaces.Get(ctx, "shop")
	check(err)
	fmt.Println(n.Name, n.Quota.Applications)
	// Output: shop 3
}

func ExampleSecrets() {
	c, ctx, end := begin(&resttest.Fake{})
	defer end()
	_, err := c.Secrets.Set(ctx, "shop", "password", []byte("correct horse"))
	check(err)
	list, err := c.Secrets.List(ctx, "shop")
	check(err)
	fmt.Println(list[0].Name)
	// Output: password
}

func ExampleHooks() {
	c, ctx, end := begin(&resttest.Fake{})
	defer end()
	h, err := c.Hooks.Set(ctx, "shop", "chat", client.HookRequest{HookSpec: client.HookSpec{URL: "https://chat.example/verge"}})
	check(err)
	fmt.Println(h.Name, h.State)
	// Output: chat ready
}

func ExampleObjects() {
	c, ctx, end := begin(&resttest.Fake{})
	defer end()
	_, err := c.Objects.Put(ctx, client.ObjectUpload{Namespace: "shop", Name: "menu.txt", Size: -1, Body: strings.NewReader("soup\n")})
	check(err)
	got, err := c.Objects.Get(ctx, "shop", "menu.txt", "")
	check(err)
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	check(err)
	fmt.Print(string(text))
	// Output: soup
}

func ExampleUsers() {
	c, ctx, end := begin(&resttest.Fake{UserData: resttest.UserData{TokenAnswer: client.TokenReply{Token: "shown once"}}})
	defer end()
	r, err := c.Users.Create(ctx, client.UserRequest{Name: "bob", Roles: client.Roles{Namespaces: map[string]string{"shop": "developer"}}})
	check(err)
	fmt.Println(r.User.Name, r.User.Namespaces["shop"], r.Token)
	// Output: bob developer shown once
}

func ExampleTokens() {
	c, ctx, end := begin(&resttest.Fake{UserData: resttest.UserData{TokenAnswer: client.TokenReply{Token: "shown once"}}})
	defer end()
	r, err := c.Tokens.Create(ctx, client.TokenRequest{Kind: "worker", TTLSeconds: 3600})
	check(err)
	fmt.Println(r.Token)
	// Output: shown once
}

func ExamplePlugins() {
	c, ctx, end := begin(&resttest.Fake{NodeData: resttest.NodeData{PluginList: []client.Plugin{{Name: "spread", Cluster: "edge"}}}})
	defer end()
	list, err := c.Plugins.List(ctx)
	check(err)
	fmt.Println(list[0].Name)
	// Output: spread
}

func ExampleUpgrades() {
	c, ctx, end := begin(&resttest.Fake{NodeData: resttest.NodeData{UpgradeAnswer: client.Upgrade{State: "paused"}}})
	defer end()
	u, err := c.Upgrades.Change(ctx, "pause", client.UpgradeAction{})
	check(err)
	fmt.Println(u.State)
	// Output: paused
}

func ExampleMetrics() {
	c, ctx, end := begin(&resttest.Fake{MetricData: resttest.MetricData{InstanceTops: []client.InstanceMetrics{{ID: "shop.web.0"}}}})
	defer end()
	list, err := c.Metrics.Instances(ctx, "shop")
	check(err)
	fmt.Println(list[0].ID)
	// Output: shop.web.0
}

func ExampleLocalChanges() {
	c, ctx, end := begin(&resttest.Fake{ApplicationData: resttest.ApplicationData{Local: client.LocalView{Changes: []client.LocalChange{{App: "shop", Service: "web"}}}}})
	defer end()
	check(c.LocalChanges.Drop(ctx, "shop", "web"))
	l, err := c.LocalChanges.List(ctx)
	check(err)
	fmt.Println(len(l.Changes))
	// Output: 0
}

func ExampleSystem() {
	c, ctx, end := begin(&resttest.Fake{State: client.Status{Role: "root", Name: "home"}})
	defer end()
	s, err := c.System.Status(ctx)
	check(err)
	fmt.Println(s.Role, s.Name)
	// Output: root home
}
