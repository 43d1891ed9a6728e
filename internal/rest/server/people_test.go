package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// here is where everything is in these tests, nowhere where nothing is.
var (
	here    = resttest.Place{App: "xapp", Namespace: "xspace", Cluster: "xsite", Worker: "xmachine"}
	nowhere = resttest.Place{App: "nothing", Namespace: "nowhere", Cluster: "noplace", Worker: "noone"}
)

func peopled() *resttest.Fake {
	who := func(w access.Who) rest.Principal { return rest.Principal{Who: w} }
	ns := func(role access.Role, names ...string) map[string]access.Role {
		m := map[string]access.Role{}
		for _, n := range names {
			m[n] = role
		}
		return m
	}
	instance := apiv1.InstanceView{Instance: wire.Instance{ID: "xapp.web.0", App: "xapp", Service: "web",
		Cluster: "xsite", State: wire.Running}, Namespace: "xspace"}
	return &resttest.Fake{
		ApplicationData: resttest.ApplicationData{
			Apps: []apiv1.AppView{{Name: "xapp", Namespace: "xspace",
				Services: []apiv1.ServiceView{{Name: "web"}}}},
			Explanations: map[string]apiv1.Explanation{"xapp.web.0": {Instance: "xapp.web.0", Notes: []string{"xtext"}}},
			ApplyAnswer:  apiv1.ApplyResult{Name: "xapp", Revision: 2, Change: "updated"},
		},
		InstanceData: resttest.InstanceData{
			InstanceList: []apiv1.InstanceView{instance},
			LogText:      map[string]string{"xapp.web.0": "xtext\n"},
		},
		NodeData: resttest.NodeData{
			ClusterList: []apiv1.ClusterView{{Name: "xsite"}},
			WorkerList: []rpc.WorkerView{{WorkerInfo: wire.WorkerInfo{Name: "xmachine"}, Cluster: "xsite",
				Status: "ready"}},
			EntryLists: map[string][]rpc.EntryView{"xsite/xmachine": {{App: "xapp", Service: "web"}}},
		},
		StorageData: resttest.StorageData{
			VolumeList: []rpc.VolumeView{{Cluster: "xsite", Worker: "xmachine",
				VolumeRef: wire.VolumeRef{Namespace: "xspace", Instance: "xapp.web.0", Name: "some"}}},
			SecretList: []apiv1.SecretView{{Name: "some", Namespace: "xspace", UsedBy: []string{"xapp.web"}}},
		},
		EventList: []apiv1.Event{
			{Seq: 1, Subject: "application/xapp", What: "xtext"},
			{Seq: 2, Subject: "instance/xapp.web.0", Tier: "cluster/xsite", What: "xtext"},
			{Seq: 3, Subject: "cluster/xsite", What: "xtext"},
			{Seq: 4, Subject: "worker/xsite/xmachine", What: "xtext"}, {Seq: 5, Subject: "odd", What: "xtext"},
		},
		State: apiv1.StatusView{
			Role: "root", Name: "root", Problems: []string{"xtext"}, Clusters: []apiv1.ClusterView{{Name: "xsite"}},
			Workers: []rpc.WorkerView{{WorkerInfo: wire.WorkerInfo{Name: "xmachine"}, Cluster: "xsite",
				Status: "ready"}}, Apps: []apiv1.AppView{{Name: "xapp", Namespace: "xspace"}},
		},
		MetricData: resttest.MetricData{
			InstanceTops: []rpc.InstanceTop{{ID: "xapp.web.0", Namespace: "xspace", Cluster: "xsite",
				Used: &rpc.Use{CPU: 5}}},
			WorkerTops:  []rpc.WorkerTopView{{Name: "xmachine", Cluster: "xsite", Problem: "xtext"}},
			ClusterTops: []apiv1.ClusterTop{{Name: "xsite", Problem: "xtext"}},
		},
		UserData: resttest.UserData{
			Spaces:    []apiv1.NamespaceView{{Name: "xspace"}},
			TokenList: []apiv1.TokenView{{ID: "some", Kind: "api"}},
			People: map[string]rest.Principal{
				"outsider":       who(access.Who{Name: "user/outsider", Namespaces: ns(access.Developer, "garden")}),
				"other-operator": who(access.Who{Name: "user/other-operator", Clusters: ns(access.Operator, "garden")}),
				"nobody":         who(access.Who{Name: "user/nobody"}),
				"viewer":         who(access.Who{Name: "user/viewer", Namespaces: ns(access.Viewer, "xspace")}),
				"developer":      who(access.Who{Name: "user/developer", Namespaces: ns(access.Developer, "xspace")}),
				"operator":       who(access.Who{Name: "user/operator", Clusters: ns(access.Operator, "xsite")}),
			},
		},
		HookData: resttest.HookData{HookList: []apiv1.HookView{{Name: "some", Namespace: "xspace",
			HookSpec: wire.HookSpec{URL: "https://xtext.example"}}}},
	}
}

// Whoever has no right to something hears the same of it, in every operation that
// there is, as if it did not exist, and hears its names nowhere.
func TestOutsidersLearnNothing(t *testing.T) {
	f := peopled()
	_, _, admin := resttest.Serve(t, f, nil)
	resttest.OutsidersLearnNothing(t, admin, []string{"outsider", "other-operator", "nobody"}, here, nowhere, "xtext")
	if len(f.Applied) != 0 || len(f.TokenRequests) != 0 || f.Apps[0].Deleting {
		t.Error("something was changed")
	}
}

// Who may see something but not change it is told which role is missing.
func TestReadersMayOnlyRead(t *testing.T) {
	f := peopled()
	_, _, admin := resttest.Serve(t, f, nil)
	client := resttest.Bearers(t, admin)
	requests := resttest.Requests(t, resttest.OpenAPI(t, admin), here.Fill)
	changes := 0
	for _, r := range requests {
		if r.Open() || !r.Changes() {
			continue
		}
		changes++
		status, body := r.Do(t, client, admin.Server, "viewer")
		if status != 403 && status != 404 || status == 403 && !strings.Contains(body, "an administrator") {
			t.Errorf("%s: %d %s", r.Operation, status, body)
		}
	}
	if changes < 3 || f.Apps[0].Deleting || len(f.Applied) != 0 {
		t.Errorf("%d operations were tried; something was changed: %+v", changes, f.Apps)
	}
	for _, c := range []struct {
		who, operation string
		status         int
		has            string
	}{
		{"viewer", "get-application", 200, "xapp"},
		{"viewer", "read-logs", 200, ""},
		{"viewer", "list-applications", 200, "xapp"},
		{"viewer", "list-clusters", 200, `{"items":[]}`},
		{"viewer", "delete-application", 403, "developer of namespace xspace"},
		// Each step of a session is asked for: who was a developer when it began may not go on.
		{"viewer", "read-exec-output", 403, "developer of namespace xspace"},
		{"viewer", "send-exec-input", 403, "developer of namespace xspace"},
		{"viewer", "create-token", 403, "an administrator"},
		{"viewer", "top-instances", 200, "xapp.web.0"},
		{"viewer", "top-workers", 200, `{"items":[]}`},
		{"developer", "top-clusters", 200, `{"items":[]}`},
		{"operator", "top-instances", 200, "xapp.web.0"},
		{"operator", "top-workers", 200, "xmachine"},
		{"operator", "top-clusters", 200, "xsite"},
		{"other-operator", "top-instances", 200, `{"items":[]}`},
		{"outsider", "top-instances", 200, `{"items":[]}`},
		{"operator", "list-clusters", 200, "xsite"},
		{"operator", "list-workers", 200, "xmachine"},
		{"operator", "list-entries", 200, "xapp"},
		{"operator", "get-instance", 200, "xapp.web.0"},
		{"operator", "read-logs", 200, ""},
		{"operator", "get-application", 404, "no-such-application"},
		{"operator", "delete-application", 404, "no-such-application"},
		{"operator", "create-token", 403, "an administrator"},
		{"developer", "list-events", 200, "instance/xapp.web.0"},
		{"developer", "list-instances", 200, "xapp.web.0"},
		{"developer", "list-workers", 200, `{"items":[]}`},
		{"developer", "delete-application", 200, ""},
		{"developer", "apply", 200, ""},
	} {
		for _, r := range requests {
			if r.Operation != c.operation {
				continue
			}
			if status, body := r.Do(t, client, admin.Server, c.who); status != c.status ||
				!strings.Contains(body, c.has) {
				t.Errorf("%s, %s: %d %s, want %d with %q", c.who, c.operation, status, body, c.status, c.has)
			}
		}
	}
}

// What is in volumes is for those who may run commands beside it, not for all who may
// read objects.
func TestWhoReadsWhatIsInVolumes(t *testing.T) {
	_, _, admin := resttest.Serve(t, peopled(), nil)
	client := resttest.Bearers(t, admin)
	for _, c := range []struct {
		who, object, want string
		status            int
	}{
		{"viewer", "plain", "no-such-object", 404}, {"viewer", "snapshots/x", "what is in a volume", 403},
		{"viewer", "volumes/xapp.web.0/data", "what is in a volume", 403},
		{"developer", "snapshots/x", "no-such-object", 404},
		{"developer", "volumes/xapp.web.0/data", "no-such-object", 404},
		{"outsider", "snapshots/x", "no-such-namespace", 404},
	} {
		r := resttest.Request{Method: "GET", Path: wire.ObjectsPath + "xspace/" + c.object}
		if status, body := r.Do(t, client, admin.Server, c.who); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s, %s: %d %s", c.who, c.object, status, body)
		}
	}
}

func entriesOf(f *resttest.Fake, what string) (out []apiv1.AuditEntry) {
	for _, e := range f.Recorded() {
		if what == "" || e.What == what {
			out = append(out, e)
		}
	}
	return out
}

// Every change is recorded once, by who made it, and nothing that only reads is.
func TestEveryChangeIsRecorded(t *testing.T) {
	f := peopled()
	f.TokenAnswer.Token = "s3cret"
	_, _, admin := resttest.Serve(t, f, nil)
	f.Bearer = "admin"
	client := resttest.Bearers(t, admin)
	n := 0
	for _, r := range resttest.Requests(t, resttest.OpenAPI(t, admin), here.Fill) {
		// Of many refusals not each is recorded: what one request removed is there again.
		f.Change(func(f *resttest.Fake) {
			f.Spaces, f.WorkerList, f.ClusterList, f.VolumeList = peopled().Spaces, peopled().WorkerList,
				peopled().ClusterList, peopled().VolumeList
			f.HookList = peopled().HookList
			f.VolumeList[0].InUse = r.Operation != "delete-volume"
		})
		before := len(f.Recorded())
		status, body := r.Do(t, client, admin.Server, "admin")
		entries := f.Recorded()[before:]
		// The middle and the end of a session are not; its beginning is.
		silent := slices.Contains([]string{"send-exec-input", "read-exec-output", "end-exec"}, r.Operation)
		open := r.Operation == "join" || r.Operation == "leave" // to whom nobody knows yet, or any more
		recorded := !silent && (r.Changes() && r.Method != "GET" || open)
		if recorded != (len(entries) == 1) || len(entries) > 1 {
			t.Errorf("%s (%s): %d %s made the entries %+v", r.Operation, r.Needs, status, body, entries)
			continue
		}
		if !recorded {
			continue
		}
		n++
		e := entries[0]
		if e.What != r.Operation || e.From != "127.0.0.1" || (e.Who != "token") != open ||
			(e.Result == "ok") != (status < 300) || e.On == "" {
			t.Errorf("%s: %d gave %+v", r.Operation, status, e)
		}
		if strings.Contains(e.Detail+e.On+e.Result, "s3cret") {
			t.Errorf("a secret is in %+v", e)
		}
	}
	if n < 10 {
		t.Errorf("only %d changes", n)
	}
	// What would change nothing is not recorded.
	before := len(f.Recorded())
	if _, err := newClient(t, admin).Applications.Apply(t.Context(), []byte("x"), true); err != nil ||
		len(f.Recorded()) != before {
		t.Errorf("a dry run: %v, %d entries", err, len(f.Recorded())-before)
	}
}

func TestEntriesSayWhatAndWho(t *testing.T) {
	f := peopled()
	_, _, admin := resttest.Serve(t, f, nil)
	client := resttest.Bearers(t, admin)
	c := newClient(t, admin)
	if _, err := c.Applications.Apply(t.Context(), []byte("x"), false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Users.Create(t.Context(),
		apiv1.UserRequest{Name: "bob",
			Roles: wire.Roles{Namespaces: map[string]string{"shop": "viewer"},
				Clusters: map[string]string{"edge": "operator"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Tokens.Create(t.Context(), apiv1.TokenRequest{Kind: "cluster", Cluster: "edge"}); err != nil {
		t.Fatal(err)
	}
	for _, r := range resttest.Requests(t, resttest.OpenAPI(t, admin), here.Fill) {
		switch r.Operation {
		case "delete-application":
			r.Do(t, client, admin.Server, "viewer")
			r.Do(t, client, admin.Server, "outsider")
		case "get-status":
			r.Do(t, client, admin.Server, "guess")
			r.Do(t, client, admin.Server, "")
		}
	}
	want := []apiv1.AuditEntry{
		{Who: "admin", What: "apply", On: "application/xapp", Result: "ok", Detail: "updated"},
		{Who: "admin", What: "create-user", On: "user/bob", Result: "ok", Detail: "operator of edge, viewer of shop"},
		{Who: "admin", What: "create-token", On: "cluster/edge", Result: "ok", Detail: "token of kind cluster"},
		{Who: "user/viewer", What: "delete-application", On: "application/xapp", Result: "forbidden"},
		{Who: "user/outsider", What: "delete-application", On: "application/xapp", Result: "no-such-application"},
		{What: "get-status", Result: "token-refused"},
		{What: "get-status", Result: "unauthenticated"},
	}
	got := f.Recorded()
	if len(got) != len(want) {
		t.Fatalf("%d entries: %+v", len(got), got)
	}
	for i, e := range got {
		e.Seq, e.From = 0, ""
		if e != want[i] {
			t.Errorf("got  %+v\nwant %+v", e, want[i])
		}
	}
}

// Who asks in a loop is recorded some times, and then with how often that was not.
func TestRefusalsAreNotAllRecorded(t *testing.T) {
	f := peopled()
	_, _, admin := resttest.Serve(t, f, nil)
	client := resttest.Bearers(t, admin)
	for range 100 {
		resttest.Request{Method: "DELETE", Path: "/v1/applications/xapp"}.Do(t, client, admin.Server, "viewer")
	}
	if n := len(f.Recorded()); n < 5 || n > 15 {
		t.Errorf("%d of 100 refusals were recorded", n)
	}
	// What is done is recorded all the same.
	if status, body := (resttest.Request{Method: "DELETE", Path: "/v1/applications/xapp"}).Do(t, client, admin.Server,
		"developer"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if e := entriesOf(f, ""); e[len(e)-1].Who != "user/developer" {
		t.Errorf("%+v", e[len(e)-1])
	}
}

// What cannot be recorded is not acknowledged.
func TestWhatIsNotRecordedIsNotAcknowledged(t *testing.T) {
	f := peopled()
	_, _, admin := resttest.Serve(t, f, nil)
	f.NoRecord = errors.New("disk full")
	err := newClient(t, admin).Applications.Delete(t.Context(), "xapp")
	wantProblem(t, err, "not-recorded", "disk full")
	if _, err := newClient(t, admin).Applications.List(t.Context()); err != nil {
		t.Errorf("reading: %v", err)
	}
}

// Guessing tokens is slowed down, for who guesses: not for tokens that were good,
// and not for certificates.
func TestGuessingTokensIsSlowedDown(t *testing.T) {
	f := peopled()
	_, _, admin := resttest.Serve(t, f, nil)
	client := resttest.Bearers(t, admin)
	status := resttest.Request{Method: "GET", Path: "/v1/me"}
	if code, body := status.Do(t, client, admin.Server, "viewer"); code != 200 ||
		!strings.Contains(body, `"xspace":"viewer"`) {
		t.Fatalf("%d %s", code, body)
	}
	refused, limited := 0, 0
	for i := range 100 {
		switch code, body := status.Do(t, client, admin.Server, fmt.Sprintf("guess-%d", i)); code {
		case 401:
			refused++
		case 429:
			limited++
		default:
			t.Fatalf("%d %s", code, body)
		}
	}
	if refused > 40 || limited < 50 {
		t.Errorf("%d guesses were looked at, %d not", refused, limited)
	}
	if code, _ := status.Do(t, client, admin.Server, "developer"); code != 429 {
		t.Errorf("a token that was never seen is looked at: %d", code)
	}
	if code, body := status.Do(t, client, admin.Server, "viewer"); code != 200 {
		t.Errorf("a token that was good: %d %s", code, body)
	}
	if _, err := newClient(t, admin).System.Status(t.Context()); err != nil {
		t.Errorf("a certificate: %v", err)
	}
}

// A long poll of who loses a right ends, and says why.
func TestRevocationEndsLongPolls(t *testing.T) {
	gone := make(chan struct{})
	b := &blocking{entered: make(chan struct{})}
	b.People = map[string]rest.Principal{"bob": {Who: access.Who{Name: "user/bob"}, Ended: gone}}
	_, _, admin := resttest.Serve(t, b, nil)
	e := client.Context{Name: "bob", Server: admin.Server, CA: admin.CA, Token: "bob"}
	result := make(chan error, 1)
	go func() {
		_, err := newClient(t, e).Events.After(t.Context(), 0, 30*time.Second)
		result <- err
	}()
	<-b.entered
	close(gone)
	wantProblem(t, <-result, "access-ended", "cut off")
}

// A session of who loses a right is ended at its worker at once, also where nothing of it is
// being asked, and where its worker cannot be reached for a moment; others' go on.
func TestRevocationEndsSessions(t *testing.T) {
	for _, how := range []string{"started", "gone on with"} {
		t.Run(how, func(t *testing.T) {
			f, gone, ended := peopled(), make(chan struct{}), make(chan string, 10)
			bob, amy := f.People["developer"], f.People["developer"]
			bob.Who.Name, bob.Ended = "user/bob", gone
			amy.Who.Name, amy.Ended = "user/amy", make(chan struct{})
			f.People["bob"], f.People["amy"] = bob, amy
			tries := 0
			f.ExecStep = func(_ context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
				id := rpc.ExecID{Cluster: "xsite", Worker: "xmachine", Instance: "xapp.web.0",
					Session: strings.TrimPrefix(q.Owner, "user/")}
				switch q.Do {
				case rpc.ExecDoStart:
					return rpc.ExecAnswer{Session: id.String()}, nil
				case rpc.ExecDoEnd:
					if tries++; tries == 1 {
						return rpc.ExecAnswer{}, wire.Problemf(503, "worker-away", "", "it cannot be reached now", "")
					}
					ended <- q.Owner + " " + q.Session
				}
				return rpc.ExecAnswer{Output: &rpc.ExecOutput{}}, nil
			}
			server, _, admin := resttest.Serve(t, f, nil)
			ids := map[string]string{}
			for _, name := range []string{"bob", "amy"} {
				c := newClient(t, client.Context{Name: name, Server: admin.Server, CA: admin.CA, Token: name})
				var err error
				ids[name] = rpc.ExecID{Cluster: "xsite", Worker: "xmachine", Instance: "xapp.web.0",
					Session: name}.String()
				if how == "gone on with" { // it was started by way of another process
					_, err = c.Exec.Read(t.Context(), ids[name], 0, 0, 0)
				} else {
					_, err = c.Exec.Forward(t.Context(), "xapp.web.0",
						rpc.ForwardStart{Key: "a-key-of-16bytes", Ports: []string{"http"}})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			close(gone)
			if got, want := <-ended, "user/bob "+ids["bob"]; got != want {
				t.Errorf("%s was ended, want %s", got, want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := server.Close(ctx); err != nil {
				t.Error(err)
			}
			if len(ended) > 0 {
				t.Errorf("%s was ended too", <-ended)
			}
		})
	}
}

// Names and bodies that are too long, or not names at all, are refused, by every
// operation.
func TestNoOperationTakesAnything(t *testing.T) {
	f := peopled()
	f.Bearer = "admin"
	_, _, admin := resttest.Serve(t, f, nil)
	client, doc := resttest.Bearers(t, admin), resttest.OpenAPI(t, admin)
	long := strings.Repeat("x", 10_000)
	for what, fill := range map[string]func(string) string{
		"long": func(name string) string {
			if name == "body" {
				return here.Fill(name)
			}
			return long
		},
		"dots":     func(string) string { return ".." },
		"slashes":  func(string) string { return "a/../b" },
		"control":  func(string) string { return "a\x00b\n" },
		"not text": func(string) string { return "\xff\xfe" },
	} {
		for _, r := range resttest.Requests(t, doc, fill) {
			status, body := r.Do(t, client, admin.Server, "admin")
			if status >= 500 || (what == "long" && status < 400 && strings.Contains(r.Path, long)) {
				t.Errorf("%s, %s: %d %.300s", what, r.Operation, status, body)
			}
		}
	}
	bodyOf := func(size int) []byte { return append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), size)...) }
	bodies := map[string][]byte{"large": bodyOf(3 << 20), "too large": bodyOf(64 << 20)}
	for _, r := range resttest.Requests(t, doc, here.Fill) {
		if r.Body == nil {
			continue
		}
		for what, b := range bodies {
			r.Body = b
			status, body, err := r.Try(client, admin.Server, "admin")
			if err == nil && (status < 400 || status >= 500) {
				t.Errorf("%s, %s: %d %.300s", what, r.Operation, status, body)
			}
		}
	}
	if _, err := newClient(t, admin).System.Status(t.Context()); err != nil {
		t.Errorf("after all that: %v", err)
	}
}
