package wire_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// kinds are all that this package and those made of it describe: what nodes send each other,
// what they store, and what the HTTP interface takes and answers. They are tested here together,
// since what holds for one holds for all: the version before reads them.
var kinds = []reflect.Type{
	reflect.TypeFor[apiv1.CAView](),
	reflect.TypeFor[apiv1.CAAuthority](),
	reflect.TypeFor[apiv1.CAMember](),
	reflect.TypeFor[apiv1.CARotateRequest](),
	reflect.TypeFor[rpc.RenewRequest](),
	reflect.TypeFor[rpc.LeaveRequest](),
	reflect.TypeFor[rpc.Challenge](),
	reflect.TypeFor[rpc.RenewReply](),
	reflect.TypeFor[wire.Revocation](), reflect.TypeFor[wire.Publish](), reflect.TypeFor[rpc.CordonAsk](),
	reflect.TypeFor[engineapi.EngineConfig](),
	reflect.TypeFor[engineapi.GatewayConfig](), reflect.TypeFor[engineapi.ACMEConfig](), reflect.TypeFor[wire.GatewayInfo](),
	reflect.TypeFor[wire.GatewayPort](), reflect.TypeFor[wire.GatewayCertificate](),
	reflect.TypeFor[engineapi.EngineOrders](),
	reflect.TypeFor[engineapi.EngineChanges](),
	reflect.TypeFor[engineapi.EngineDevices](),
	reflect.TypeFor[engineapi.EngineUpgrade](),
	reflect.TypeFor[engineapi.EngineUpgraded](),
	reflect.TypeFor[wire.Program](), reflect.TypeFor[apiv1.UpgradeRequest](), reflect.TypeFor[apiv1.UpgradeAction](), reflect.TypeFor[apiv1.UpgradeView](),
	reflect.TypeFor[apiv1.UpgradeWorker](), reflect.TypeFor[rpc.UpgradeAsk](), reflect.TypeFor[rpc.UpgradeTry](),
	reflect.TypeFor[wire.Block](),
	reflect.TypeFor[wire.Lease](),
	reflect.TypeFor[wire.SignedLease](),
	reflect.TypeFor[wire.ClusterLease](),
	reflect.TypeFor[wire.NetworkNeed](),
	reflect.TypeFor[wire.NetworkInfo](), reflect.TypeFor[wire.Isolation](),
	reflect.TypeFor[rpc.RouteReport](), reflect.TypeFor[rpc.RouteEndpoint](), reflect.TypeFor[rpc.NetReport](), reflect.TypeFor[rpc.NetPeer](),
	reflect.TypeFor[wire.Coordinate](), reflect.TypeFor[rpc.MeasureAsk](), reflect.TypeFor[rpc.MeasurePeer](), reflect.TypeFor[rpc.Measured](), reflect.TypeFor[rpc.MeasuredRTT](),
	reflect.TypeFor[wire.Where](),
	reflect.TypeFor[wire.Network](),
	reflect.TypeFor[wire.Relay](),
	reflect.TypeFor[apiv1.ClusterNetwork](),
	reflect.TypeFor[apiv1.NetworkView](),
	reflect.TypeFor[engineapi.EngineState](),
	reflect.TypeFor[engineapi.EngineInfo](),
	reflect.TypeFor[rpc.ExecAsk](),
	reflect.TypeFor[rpc.ExecStart](), reflect.TypeFor[rpc.ForwardStart](), reflect.TypeFor[rpc.CopyStart](),
	reflect.TypeFor[rpc.Terminal](),
	reflect.TypeFor[rpc.ExecInput](),
	reflect.TypeFor[rpc.ExecOffset](),
	reflect.TypeFor[rpc.ExecAnswer](),
	reflect.TypeFor[rpc.Invocation](),
	reflect.TypeFor[rpc.Invoked](),
	reflect.TypeFor[rpc.ExecOutput](),
	reflect.TypeFor[rpc.ExecID](),
	reflect.TypeFor[rpc.ProfileAsk](), reflect.TypeFor[rpc.ProfileLoad](), reflect.TypeFor[rpc.ProfileReport](), reflect.TypeFor[rpc.ProfileNode](),
	reflect.TypeFor[wire.LocalChange](),
	reflect.TypeFor[wire.Conflict](),
	reflect.TypeFor[apiv1.LocalView](),
	reflect.TypeFor[record.Scaled](),
	reflect.TypeFor[wire.Sleep](),
	reflect.TypeFor[wire.Demand](), reflect.TypeFor[wire.ServiceDemand](), reflect.TypeFor[wire.ReplicaDemand](), reflect.TypeFor[wire.InstanceAnswers](), reflect.TypeFor[wire.RolloutSide](), reflect.TypeFor[rpc.ScaleDecision](), reflect.TypeFor[rpc.ScaleReport](),
	reflect.TypeFor[wire.Cordon](),
	reflect.TypeFor[rpc.CordonRequest](),
	reflect.TypeFor[rpc.DrainView](),
	reflect.TypeFor[rpc.DrainItem](),
	reflect.TypeFor[wire.Restart](),
	reflect.TypeFor[apiv1.RestartRequest](),
	reflect.TypeFor[wire.Hold](),
	reflect.TypeFor[wire.RolloutReport](),
	reflect.TypeFor[apiv1.RolloutView](),
	reflect.TypeFor[apiv1.ServiceRollout](),
	reflect.TypeFor[apiv1.RolloutRequest](),
	reflect.TypeFor[apiv1.AppRevision](),
	reflect.TypeFor[apiv1.RestartResult](),
	reflect.TypeFor[apiv1.ScaleRequest](),
	reflect.TypeFor[wire.Quota](),
	reflect.TypeFor[record.Namespace](),
	reflect.TypeFor[apiv1.PluginView](), reflect.TypeFor[apiv1.PluginCall](), reflect.TypeFor[apiv1.PluginIdentity](),
	reflect.TypeFor[wire.Standing](),
	reflect.TypeFor[engineapi.PullConfig](),
	reflect.TypeFor[rpc.ImageAsk](),
	reflect.TypeFor[rpc.ImageGone](),
	reflect.TypeFor[rpc.ImageSources](),
	reflect.TypeFor[rpc.ImageSource](),
	reflect.TypeFor[apiv1.NamespaceShare](),
	reflect.TypeFor[apiv1.NamespaceRequest](),
	reflect.TypeFor[apiv1.NamespaceView](),
	reflect.TypeFor[wire.Roles](),
	reflect.TypeFor[record.User](),
	reflect.TypeFor[record.UserToken](),
	reflect.TypeFor[apiv1.UserRequest](),
	reflect.TypeFor[apiv1.RotateRequest](),
	reflect.TypeFor[apiv1.UserView](),
	reflect.TypeFor[apiv1.UserReply](),
	reflect.TypeFor[apiv1.WhoView](),
	reflect.TypeFor[apiv1.AuditEntry](),
	reflect.TypeFor[apiv1.AuditQuery](),
	reflect.TypeFor[apiv1.AuditPage](),
	reflect.TypeFor[rpc.PlanAsk](),
	reflect.TypeFor[rpc.SitePlan](),
	reflect.TypeFor[apiv1.Plan](),
	reflect.TypeFor[apiv1.PlanSite](),
	reflect.TypeFor[apiv1.ServicePlan](),
	reflect.TypeFor[apiv1.FieldChange](),
	reflect.TypeFor[rpc.InstancePlan](),
	reflect.TypeFor[wire.Transition](),
	reflect.TypeFor[wire.Instance](), reflect.TypeFor[wire.Conditions](), reflect.TypeFor[wire.RunHistory](),
	reflect.TypeFor[wire.PlacementHistory](), reflect.TypeFor[wire.Relocation](),
	reflect.TypeFor[wire.Move](),
	reflect.TypeFor[wire.RoomAsk](),
	reflect.TypeFor[wire.Placement](),
	reflect.TypeFor[wire.Exit](), reflect.TypeFor[wire.JobTry](), reflect.TypeFor[wire.JobOrder](), reflect.TypeFor[wire.JobRun](), reflect.TypeFor[apiv1.JobView](),
	reflect.TypeFor[apiv1.JobRequest](), reflect.TypeFor[apiv1.JobResult](), reflect.TypeFor[wire.ClusterRun](), reflect.TypeFor[wire.Times](), reflect.TypeFor[wire.CronState](), reflect.TypeFor[wire.CronStart](), reflect.TypeFor[wire.JobReport](),
	reflect.TypeFor[wire.Share](),
	reflect.TypeFor[wire.Span](),
	reflect.TypeFor[wire.Order](),
	reflect.TypeFor[wire.InstanceStatus](),
	reflect.TypeFor[wire.Route](),
	reflect.TypeFor[wire.Endpoint](),
	reflect.TypeFor[wire.WorkerInfo](),
	reflect.TypeFor[wire.Device](),
	reflect.TypeFor[engineapi.DeviceNode](),
	reflect.TypeFor[wire.Held](),
	reflect.TypeFor[wire.Aggregate](), reflect.TypeFor[wire.FreeCapacity](), reflect.TypeFor[wire.WorkerKinds](),
	reflect.TypeFor[wire.Site](),
	reflect.TypeFor[wire.Disc](),
	reflect.TypeFor[wire.Around](),
	reflect.TypeFor[wire.ServiceShort](),
	reflect.TypeFor[rpc.Give](),
	reflect.TypeFor[wire.Spread](),
	reflect.TypeFor[wire.PriorityUse](),
	reflect.TypeFor[wire.Reported](),
	reflect.TypeFor[rpc.Holdings](),
	reflect.TypeFor[wire.JobDone](),
	reflect.TypeFor[wire.Recovered](),
	reflect.TypeFor[apiv1.RecoveryView](),
	reflect.TypeFor[apiv1.RecoveryPeer](),
	reflect.TypeFor[wire.Rev](),
	reflect.TypeFor[wire.Era](),
	reflect.TypeFor[wire.SecretHeld](),
	reflect.TypeFor[wire.VolumeWork](),
	reflect.TypeFor[wire.VolumeObject](),
	reflect.TypeFor[wire.VolumeReport](),
	reflect.TypeFor[wire.VolumeMove](),
	reflect.TypeFor[wire.VolumesEnded](),
	reflect.TypeFor[apiv1.VolumeMoveRequest](),
	reflect.TypeFor[apiv1.VolumeSnapshotRequest](),
	reflect.TypeFor[wire.HookSpec](), reflect.TypeFor[apiv1.HookRequest](), reflect.TypeFor[record.HookSecret](), reflect.TypeFor[record.Hook](), reflect.TypeFor[record.HookItem](),
	reflect.TypeFor[record.HookMark](), reflect.TypeFor[apiv1.HookMessage](), reflect.TypeFor[wire.HookData](), reflect.TypeFor[apiv1.HookAnswer](), reflect.TypeFor[apiv1.HookView](), reflect.TypeFor[apiv1.HookTested](),
	reflect.TypeFor[wire.HookWave](), reflect.TypeFor[rpc.GateQuestion](), reflect.TypeFor[rpc.GateReply](),
	reflect.TypeFor[wire.SealedSecret](),
	reflect.TypeFor[record.Secret](),
	reflect.TypeFor[apiv1.SecretView](),
	reflect.TypeFor[wire.Change](),
	reflect.TypeFor[wire.Report](),
	reflect.TypeFor[wire.Uses](),
	reflect.TypeFor[wire.ReportReply](),
	reflect.TypeFor[wire.Fetch](),
	reflect.TypeFor[wire.FetchReply](),
	reflect.TypeFor[wire.Down](),
	reflect.TypeFor[rpc.Ask](),
	reflect.TypeFor[rpc.MetricsPage](),
	reflect.TypeFor[rpc.Answer](),
	reflect.TypeFor[rpc.LogAsk](),
	reflect.TypeFor[rpc.LogChunk](),
	reflect.TypeFor[rpc.LogTime](),
	reflect.TypeFor[wire.Counters](),
	reflect.TypeFor[apiv1.CountersSince](),
	reflect.TypeFor[rpc.WorkerTop](),
	reflect.TypeFor[wire.VolumeRef](),
	reflect.TypeFor[rpc.VolumeView](),
	reflect.TypeFor[rpc.InstanceUse](),
	reflect.TypeFor[rpc.Use](),
	reflect.TypeFor[rpc.InstanceTop](),
	reflect.TypeFor[rpc.WorkerTopView](),
	reflect.TypeFor[apiv1.ClusterTop](),
	reflect.TypeFor[rpc.TopPage](),
	reflect.TypeFor[wire.Problem](),
	reflect.TypeFor[record.Application](),
	reflect.TypeFor[apiv1.ApplyResult](),
	reflect.TypeFor[apiv1.AppView](),
	reflect.TypeFor[apiv1.ServiceView](),
	reflect.TypeFor[apiv1.InstanceView](),
	reflect.TypeFor[apiv1.ClusterView](),
	reflect.TypeFor[rpc.WorkerView](),
	reflect.TypeFor[rpc.EntryView](),
	reflect.TypeFor[apiv1.Event](),
	reflect.TypeFor[apiv1.EventPage](),
	reflect.TypeFor[apiv1.StatusView](),
	reflect.TypeFor[apiv1.Explanation](),
	reflect.TypeFor[rpc.Explained](),
	reflect.TypeFor[wire.GatewayGrant](),
	reflect.TypeFor[rpc.ACMERequest](), reflect.TypeFor[rpc.ACMEReply](), reflect.TypeFor[rpc.ACMEEntry](),
	reflect.TypeFor[apiv1.TokenRequest](),
	reflect.TypeFor[apiv1.TokenReply](),
	reflect.TypeFor[apiv1.TokenView](),
	reflect.TypeFor[rpc.JoinRequest](),
	reflect.TypeFor[rpc.JoinReply](),
	reflect.TypeFor[apiv1.VersionView](),
	reflect.TypeFor[apiv1.WatchEvent](),
	reflect.TypeFor[engineapi.ImageView](),
	reflect.TypeFor[wire.TunnelConfig](),
	reflect.TypeFor[wire.RelayConfig](),
	reflect.TypeFor[wire.RequestRules](),
	reflect.TypeFor[wire.Entering](),
	reflect.TypeFor[wire.Snapshot](), reflect.TypeFor[record.LeftVolumes](), reflect.TypeFor[apiv1.VolumeForgetRequest](), reflect.TypeFor[apiv1.SnapshotView](), reflect.TypeFor[record.Object](), reflect.TypeFor[apiv1.ObjectView](),
}

// What is not in kinds is not fuzzed: nothing may be forgotten there.
func TestKindsAreAllThereAre(t *testing.T) {
	in := map[string]bool{}
	for _, kind := range kinds {
		in[kind.Name()] = true
	}
	found := 0
	for _, f := range sources(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
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
					t.Errorf("%s (%s) is not in kinds", spec.Name.Name, f)
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
		reflect.TypeFor[wire.Down](), reflect.TypeFor[rpc.Answer](), reflect.TypeFor[wire.Share](), reflect.TypeFor[wire.Order](), reflect.TypeFor[wire.Route](),
		reflect.TypeFor[wire.Instance](), reflect.TypeFor[wire.InstanceStatus](), reflect.TypeFor[wire.WorkerInfo](), reflect.TypeFor[wire.Aggregate](),
		reflect.TypeFor[record.Application](), reflect.TypeFor[record.Namespace](), reflect.TypeFor[record.User](), reflect.TypeFor[apiv1.AuditEntry](),
		reflect.TypeFor[wire.SealedSecret](), reflect.TypeFor[record.Secret](), reflect.TypeFor[wire.Revocation](), reflect.TypeFor[wire.Publish](), reflect.TypeFor[rpc.Holdings](),
		reflect.TypeFor[rpc.JoinRequest](), reflect.TypeFor[rpc.JoinReply](), reflect.TypeFor[rpc.RenewRequest](), reflect.TypeFor[rpc.LeaveRequest](), reflect.TypeFor[rpc.RenewReply](),
		reflect.TypeFor[engineapi.EngineConfig](), reflect.TypeFor[engineapi.EngineOrders](), reflect.TypeFor[engineapi.EngineChanges](), reflect.TypeFor[engineapi.EngineState](),
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
