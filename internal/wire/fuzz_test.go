package wire_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// kinds are all that this package describes: what nodes send each other, what they
// store, and what the HTTP interface takes and answers.
var kinds = []reflect.Type{
	reflect.TypeFor[wire.CAView](),
	reflect.TypeFor[wire.Path](),
	reflect.TypeFor[wire.Paths](),
	reflect.TypeFor[wire.CAAuthority](),
	reflect.TypeFor[wire.CAMember](),
	reflect.TypeFor[wire.CARotateRequest](),
	reflect.TypeFor[wire.RenewRequest](),
	reflect.TypeFor[wire.LeaveRequest](),
	reflect.TypeFor[wire.Challenge](),
	reflect.TypeFor[wire.RenewReply](),
	reflect.TypeFor[wire.Revocation](), reflect.TypeFor[wire.Publish](), reflect.TypeFor[wire.CordonAsk](),
	reflect.TypeFor[wire.EngineConfig](),
	reflect.TypeFor[wire.GatewayConfig](), reflect.TypeFor[wire.ACMEConfig](), reflect.TypeFor[wire.GatewayInfo](),
	reflect.TypeFor[wire.GatewayPort](), reflect.TypeFor[wire.GatewayCertificate](),
	reflect.TypeFor[wire.EngineOrders](),
	reflect.TypeFor[wire.EngineChanges](),
	reflect.TypeFor[wire.EngineDevices](),
	reflect.TypeFor[wire.EngineUpgrade](),
	reflect.TypeFor[wire.EngineUpgraded](),
	reflect.TypeFor[wire.Program](), reflect.TypeFor[wire.UpgradeRequest](), reflect.TypeFor[wire.UpgradeAction](), reflect.TypeFor[wire.UpgradeView](),
	reflect.TypeFor[wire.UpgradeWorker](), reflect.TypeFor[wire.UpgradeAsk](), reflect.TypeFor[wire.UpgradeTry](),
	reflect.TypeFor[wire.Block](),
	reflect.TypeFor[wire.Lease](),
	reflect.TypeFor[wire.SignedLease](),
	reflect.TypeFor[wire.ClusterLease](),
	reflect.TypeFor[wire.NetworkNeed](),
	reflect.TypeFor[wire.NetworkInfo](), reflect.TypeFor[wire.Isolation](),
	reflect.TypeFor[wire.RouteReport](), reflect.TypeFor[wire.RouteEndpoint](), reflect.TypeFor[wire.NetReport](), reflect.TypeFor[wire.NetPeer](),
	reflect.TypeFor[wire.Coordinate](), reflect.TypeFor[wire.MeasureAsk](), reflect.TypeFor[wire.MeasurePeer](), reflect.TypeFor[wire.Measured](), reflect.TypeFor[wire.MeasuredRTT](),
	reflect.TypeFor[wire.Where](),
	reflect.TypeFor[wire.Network](),
	reflect.TypeFor[wire.Relay](),
	reflect.TypeFor[wire.ClusterNetwork](),
	reflect.TypeFor[wire.NetworkView](),
	reflect.TypeFor[wire.EngineState](),
	reflect.TypeFor[wire.EngineInfo](),
	reflect.TypeFor[wire.ExecAsk](),
	reflect.TypeFor[wire.ExecStart](), reflect.TypeFor[wire.ForwardStart](), reflect.TypeFor[wire.CopyStart](),
	reflect.TypeFor[wire.Terminal](),
	reflect.TypeFor[wire.ExecInput](),
	reflect.TypeFor[wire.ExecOffset](),
	reflect.TypeFor[wire.ExecAnswer](),
	reflect.TypeFor[wire.Invocation](),
	reflect.TypeFor[wire.Invoked](),
	reflect.TypeFor[wire.ExecOutput](),
	reflect.TypeFor[wire.ExecID](),
	reflect.TypeFor[wire.ProfileAsk](), reflect.TypeFor[wire.ProfileLoad](), reflect.TypeFor[wire.ProfileReport](), reflect.TypeFor[wire.ProfileNode](),
	reflect.TypeFor[wire.LocalChange](),
	reflect.TypeFor[wire.Conflict](),
	reflect.TypeFor[wire.LocalView](),
	reflect.TypeFor[wire.Scaled](),
	reflect.TypeFor[wire.Sleep](),
	reflect.TypeFor[wire.Demand](), reflect.TypeFor[wire.ServiceDemand](), reflect.TypeFor[wire.ReplicaDemand](), reflect.TypeFor[wire.InstanceAnswers](), reflect.TypeFor[wire.RolloutSide](), reflect.TypeFor[wire.ScaleDecision](), reflect.TypeFor[wire.ScaleReport](),
	reflect.TypeFor[wire.Cordon](),
	reflect.TypeFor[wire.CordonRequest](),
	reflect.TypeFor[wire.DrainView](),
	reflect.TypeFor[wire.DrainItem](),
	reflect.TypeFor[wire.Restart](),
	reflect.TypeFor[wire.RestartRequest](),
	reflect.TypeFor[wire.Hold](),
	reflect.TypeFor[wire.RolloutReport](),
	reflect.TypeFor[wire.RolloutView](),
	reflect.TypeFor[wire.ServiceRollout](),
	reflect.TypeFor[wire.RolloutRequest](),
	reflect.TypeFor[wire.AppRevision](),
	reflect.TypeFor[wire.RestartResult](),
	reflect.TypeFor[wire.ScaleRequest](),
	reflect.TypeFor[wire.Quota](),
	reflect.TypeFor[wire.Namespace](),
	reflect.TypeFor[wire.PluginView](), reflect.TypeFor[wire.PluginCall](), reflect.TypeFor[wire.PluginIdentity](),
	reflect.TypeFor[wire.Standing](),
	reflect.TypeFor[wire.PullConfig](),
	reflect.TypeFor[wire.ImageAsk](),
	reflect.TypeFor[wire.ImageGone](),
	reflect.TypeFor[wire.ImageSources](),
	reflect.TypeFor[wire.ImageSource](),
	reflect.TypeFor[wire.NamespaceShare](),
	reflect.TypeFor[wire.NamespaceRequest](),
	reflect.TypeFor[wire.NamespaceView](),
	reflect.TypeFor[wire.Roles](),
	reflect.TypeFor[wire.User](),
	reflect.TypeFor[wire.UserToken](),
	reflect.TypeFor[wire.UserRequest](),
	reflect.TypeFor[wire.RotateRequest](),
	reflect.TypeFor[wire.UserView](),
	reflect.TypeFor[wire.UserReply](),
	reflect.TypeFor[wire.WhoView](),
	reflect.TypeFor[wire.AuditEntry](),
	reflect.TypeFor[wire.AuditQuery](),
	reflect.TypeFor[wire.AuditPage](),
	reflect.TypeFor[wire.PlanAsk](),
	reflect.TypeFor[wire.SitePlan](),
	reflect.TypeFor[wire.Plan](),
	reflect.TypeFor[wire.PlanSite](),
	reflect.TypeFor[wire.ServicePlan](),
	reflect.TypeFor[wire.FieldChange](),
	reflect.TypeFor[wire.InstancePlan](),
	reflect.TypeFor[wire.Transition](),
	reflect.TypeFor[wire.Instance](),
	reflect.TypeFor[wire.Move](),
	reflect.TypeFor[wire.RoomAsk](),
	reflect.TypeFor[wire.Placement](),
	reflect.TypeFor[wire.Exit](), reflect.TypeFor[wire.JobTry](), reflect.TypeFor[wire.JobOrder](), reflect.TypeFor[wire.JobRun](), reflect.TypeFor[wire.JobView](),
	reflect.TypeFor[wire.JobRequest](), reflect.TypeFor[wire.JobResult](), reflect.TypeFor[wire.ClusterRun](), reflect.TypeFor[wire.Times](), reflect.TypeFor[wire.CronState](), reflect.TypeFor[wire.CronStart](), reflect.TypeFor[wire.JobReport](),
	reflect.TypeFor[wire.Share](),
	reflect.TypeFor[wire.Span](),
	reflect.TypeFor[wire.Order](),
	reflect.TypeFor[wire.InstanceStatus](),
	reflect.TypeFor[wire.Route](),
	reflect.TypeFor[wire.Endpoint](),
	reflect.TypeFor[wire.WorkerInfo](),
	reflect.TypeFor[wire.Device](),
	reflect.TypeFor[wire.DeviceNode](),
	reflect.TypeFor[wire.Held](),
	reflect.TypeFor[wire.Aggregate](),
	reflect.TypeFor[wire.Site](),
	reflect.TypeFor[wire.Disc](),
	reflect.TypeFor[wire.Around](),
	reflect.TypeFor[wire.ServiceShort](),
	reflect.TypeFor[wire.Give](),
	reflect.TypeFor[wire.Spread](),
	reflect.TypeFor[wire.PriorityUse](),
	reflect.TypeFor[wire.Reported](),
	reflect.TypeFor[wire.Holdings](),
	reflect.TypeFor[wire.JobDone](),
	reflect.TypeFor[wire.Recovered](),
	reflect.TypeFor[wire.RecoveryView](),
	reflect.TypeFor[wire.RecoveryPeer](),
	reflect.TypeFor[wire.Rev](),
	reflect.TypeFor[wire.Era](),
	reflect.TypeFor[wire.SecretHeld](),
	reflect.TypeFor[wire.VolumeWork](),
	reflect.TypeFor[wire.VolumeObject](),
	reflect.TypeFor[wire.VolumeReport](),
	reflect.TypeFor[wire.VolumeMove](),
	reflect.TypeFor[wire.VolumesEnded](),
	reflect.TypeFor[wire.VolumeMoveRequest](),
	reflect.TypeFor[wire.VolumeSnapshotRequest](),
	reflect.TypeFor[wire.HookSpec](), reflect.TypeFor[wire.HookRequest](), reflect.TypeFor[wire.HookSecret](), reflect.TypeFor[wire.Hook](), reflect.TypeFor[wire.HookItem](),
	reflect.TypeFor[wire.HookMark](), reflect.TypeFor[wire.HookMessage](), reflect.TypeFor[wire.HookData](), reflect.TypeFor[wire.HookAnswer](), reflect.TypeFor[wire.HookView](), reflect.TypeFor[wire.HookTested](),
	reflect.TypeFor[wire.HookKind](), reflect.TypeFor[wire.HookWave](), reflect.TypeFor[wire.GateQuestion](), reflect.TypeFor[wire.GateReply](),
	reflect.TypeFor[wire.SealedSecret](),
	reflect.TypeFor[wire.Secret](),
	reflect.TypeFor[wire.SecretView](),
	reflect.TypeFor[wire.Change](),
	reflect.TypeFor[wire.Report](),
	reflect.TypeFor[wire.Uses](),
	reflect.TypeFor[wire.ReportReply](),
	reflect.TypeFor[wire.Fetch](),
	reflect.TypeFor[wire.FetchReply](),
	reflect.TypeFor[wire.Down](),
	reflect.TypeFor[wire.Ask](),
	reflect.TypeFor[wire.MetricsPage](),
	reflect.TypeFor[wire.Answer](),
	reflect.TypeFor[wire.LogAsk](),
	reflect.TypeFor[wire.LogChunk](),
	reflect.TypeFor[wire.LogTime](),
	reflect.TypeFor[wire.Tally](),
	reflect.TypeFor[wire.TallySince](),
	reflect.TypeFor[wire.WorkerTop](),
	reflect.TypeFor[wire.VolumeRef](),
	reflect.TypeFor[wire.VolumeView](),
	reflect.TypeFor[wire.InstanceUse](),
	reflect.TypeFor[wire.Use](),
	reflect.TypeFor[wire.InstanceTop](),
	reflect.TypeFor[wire.WorkerTopView](),
	reflect.TypeFor[wire.ClusterTop](),
	reflect.TypeFor[wire.TopPage](),
	reflect.TypeFor[wire.Problem](),
	reflect.TypeFor[wire.Application](),
	reflect.TypeFor[wire.ApplyResult](),
	reflect.TypeFor[wire.AppView](),
	reflect.TypeFor[wire.ServiceView](),
	reflect.TypeFor[wire.InstanceView](),
	reflect.TypeFor[wire.ClusterView](),
	reflect.TypeFor[wire.WorkerView](),
	reflect.TypeFor[wire.EntryView](),
	reflect.TypeFor[wire.Event](),
	reflect.TypeFor[wire.EventPage](),
	reflect.TypeFor[wire.StatusView](),
	reflect.TypeFor[wire.Explanation](),
	reflect.TypeFor[wire.Explained](),
	reflect.TypeFor[wire.GatewayGrant](),
	reflect.TypeFor[wire.ACMERequest](), reflect.TypeFor[wire.ACMEReply](), reflect.TypeFor[wire.ACMEEntry](),
	reflect.TypeFor[wire.TokenRequest](),
	reflect.TypeFor[wire.TokenReply](),
	reflect.TypeFor[wire.TokenView](),
	reflect.TypeFor[wire.JoinRequest](),
	reflect.TypeFor[wire.JoinReply](),
	reflect.TypeFor[wire.VersionView](),
	reflect.TypeFor[wire.WatchEvent](),
	reflect.TypeFor[wire.ImageView](),
	reflect.TypeFor[wire.TunnelConfig](),
	reflect.TypeFor[wire.RelayConfig](),
	reflect.TypeFor[wire.RequestRules](),
	reflect.TypeFor[wire.Entering](),
	reflect.TypeFor[wire.Snapshot](), reflect.TypeFor[wire.LeftVolumes](), reflect.TypeFor[wire.VolumeForgetRequest](), reflect.TypeFor[wire.SnapshotView](), reflect.TypeFor[wire.Object](), reflect.TypeFor[wire.ObjectView](),
}

// What is not in kinds is not fuzzed: nothing may be forgotten there.
func TestKindsAreAllThereAre(t *testing.T) {
	in := map[string]bool{}
	for _, kind := range kinds {
		in[kind.Name()] = true
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			if _, is := spec.Type.(*ast.StructType); is {
				if found++; !in[spec.Name.Name] {
					t.Errorf("wire.%s (%s) is not in kinds", spec.Name.Name, f.Name())
				}
			}
			return true
		})
	}
	if found != len(kinds) {
		t.Errorf("%d are described, %d are in kinds", found, len(kinds))
	}
}

// What is stored or goes between nodes says its version, so that a later one can
// tell; what is a part of such a message, or of an answer to a person, need not.
func TestRecordsHaveAVersion(t *testing.T) {
	for _, kind := range []reflect.Type{
		reflect.TypeFor[wire.Report](), reflect.TypeFor[wire.ReportReply](), reflect.TypeFor[wire.Fetch](), reflect.TypeFor[wire.FetchReply](),
		reflect.TypeFor[wire.Down](), reflect.TypeFor[wire.Answer](), reflect.TypeFor[wire.Share](), reflect.TypeFor[wire.Order](), reflect.TypeFor[wire.Route](),
		reflect.TypeFor[wire.Instance](), reflect.TypeFor[wire.InstanceStatus](), reflect.TypeFor[wire.WorkerInfo](), reflect.TypeFor[wire.Aggregate](),
		reflect.TypeFor[wire.Application](), reflect.TypeFor[wire.Namespace](), reflect.TypeFor[wire.User](), reflect.TypeFor[wire.AuditEntry](),
		reflect.TypeFor[wire.SealedSecret](), reflect.TypeFor[wire.Secret](), reflect.TypeFor[wire.Revocation](), reflect.TypeFor[wire.Publish](), reflect.TypeFor[wire.Holdings](),
		reflect.TypeFor[wire.JoinRequest](), reflect.TypeFor[wire.JoinReply](), reflect.TypeFor[wire.RenewRequest](), reflect.TypeFor[wire.LeaveRequest](), reflect.TypeFor[wire.RenewReply](),
		reflect.TypeFor[wire.EngineConfig](), reflect.TypeFor[wire.EngineOrders](), reflect.TypeFor[wire.EngineChanges](), reflect.TypeFor[wire.EngineState](),
		reflect.TypeFor[wire.LocalChange](), reflect.TypeFor[wire.Conflict](),
	} {
		if f, ok := kind.FieldByName("V"); !ok || !strings.HasPrefix(f.Tag.Get("json"), "v") {
			t.Errorf("%s has no version", kind)
		}
	}
}

// FuzzMessages: what a peer can send is refused or read, and what was read says
// the same when it is sent on.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"h":{"i":"a","n":1},"f":{},"t":{"n":2},"c":[{"k":"a.b.0","v":{"x":1}},{"k":"y","d":true}],"m":true,"s":[],"x":1000}`,
		`{"v":1,"w":{"i":"a"},"a":{"n":1},"ns":true,"l":-1,"e":"no"}`,
		`{"v":1,"s":{"i":"a"},"p":"k","at":{"n":18446744073709551615}}`,
		`{"v":1,"f":true,"t":{"i":"a","n":9},"c":[{"k":"","v":null}],"mv":true}`,
		`{"v":1,"n":true,"a":{"w":"logs","i":"../x","o":-1,"m":1,"t":5}}`,
		`{"v":1,"app":"a","service":"b","min":1,"max":1,"ordinals":[{"from":0,"to":1}],"spec":{"command":["x"],"replicas":{"min":1,"max":1}},"peers":{"c":[{"name":"http"}]}}`,
		`{"v":1,"id":"a.b.0","incarnation":-1,"stop":true,"spec":null,"revision":18446744073709551615}`,
		`{"v":1,"id":"a.b.0","phase":"running","ports":{"http":70000},"last_exit":{"code":1,"at":"0001-01-01T00:00:00Z"}}`,
		`{"v":1,"capacity":{"cpu":1000,"memory":1,"disk":-1},"labels":{"a":"b"}}`,
		`{"v":1,"arch":"arm64","location":[91,-1e300],"features":["kvm"],"host_paths":["/srv"],"pinned":"w1"}`,
		`{"v":1,"architectures":{"amd64":-1},"labels":{"a=b":3},"more_labels":true,"disc":{"center":[1],"radius_km":-1},"site":{"operator":"x","location":[0,0,0]}}`,
		`{"v":1,"spec":{"files":{"a":{"secret":"b","mode":"0640"}},"volumes":[{"path":"a","tmpfs":"1Mi"}],"location":{"radius":"1km"},"affinity":{"polygon":[[1,2]]},"liveness":{"exec":{"command":["x"]}}}}`,
		`{"v":1,"cpu":{"sum":1e308,"dev":-1},"reflects":{"i":"a"}}`,
		`{"w":"exec","x":{"do":"start","owner":"o","start":{"key":"k","command":["a"],"terminal":{"rows":-1}},"input":{"offset":-1,"data":"eA==","end":true},"output":{"stdout":1}}}`,
		`{"v":1,"e":"no","p":{"status":404,"code":"c","title":"t"}}`,
		`{"session":"s","taken":1,"output":{"stdout":"eA==","ended":true,"exit":{"code":1,"at":"0001-01-01T00:00:00Z"},"why":"w"}}`,
		`{"v":1,"have":{"n":1},"orders":[{"id":"a.b.0"}],"routes":[{"endpoints":[{}]}]}`,
		`{"v":1,"from":{"n":1},"to":{"n":2},"routes":[{"endpoints":[{}]}],"gone":["a.b"]}`,
		`{"v":1,"name":"w1","public_key":"AAEC","nats_key":"U","challenge":"x","signature":"AA=="}`,
		`{"v":1,"j":{"v":1,"chain":"x","link":["a:1"],"api":["b:2"]},"p":{"status":403,"code":"node-removed"}}`,
		`{"restarts":18446744073709551615,"changes":1}`,
		`{"w":"plan","pl":{"app":"a","shares":[{"v":1,"app":"a","service":"b","spec":null},{}]}}`,
		`{"v":1,"instances":[{"id":"a.b.0","action":"start","to":"edge","decisions":[{"tier":"t","at":"0001-01-01T00:00:00Z","decision":{"x":1}}]},{}],"notes":["n"]}`,
		`{"v":1,"until":"2026-01-02T03:04:05Z","cluster":"edge"}`,
		`{"v":1,"namespace":"default","name":"a","version":"x","key":"k","sealed":"eA==","created":"0001-01-01T00:00:00Z","by":"b"}`,
		`{"v":1,"t":"H4sIAAAAAAAA/w=="}`,
		`{"v":1,"have":{"n":1},"secrets":[{"sealed":"eA=="},{}],"orders":[{"id":"a.b.0"}],"routes":[{"endpoints":[{}]}]}`,
		`{"v":1,"seq":3,"at":"2026-01-02T03:04:05Z","who":"user/bob","from":"::1","what":"apply","on":"application/a","result":"ok"}`,
		`{"id":"0123456789abcdef","kind":"api","by":"token/0","created":"2026-01-02T03:04:05Z","expires":"9999-12-31T23:59:59Z"}`,
		`{"tier":"root","at":"2026-01-02T03:04:05+23:59","decision":{"a":[1e3,null,"x"]},"notes":["x"]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range kinds {
			pair := [2]any{reflect.New(kind).Interface(), reflect.New(kind).Interface()}
			if json.Unmarshal(data, pair[0]) != nil {
				continue
			}
			first, err := json.Marshal(pair[0])
			if err != nil {
				t.Fatalf("%T was read and cannot be sent on: %v", pair[0], err)
			}
			if err := json.Unmarshal(first, pair[1]); err != nil {
				t.Fatalf("%T does not read what it wrote: %v\n%s", pair[0], err, first)
			}
			second, err := json.Marshal(pair[1])
			if err != nil || string(first) != string(second) {
				t.Fatalf("%T says something else when it is sent on: %v\n%s\n%s", pair[0], err, first, second)
			}
		}
	})
}
