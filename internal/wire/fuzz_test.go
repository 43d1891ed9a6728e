package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

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
		`{"v":1,"name":"w1","public_key":"AAEC","nats_key":"U","challenge":"x","signature":"AA=="}`,
		`{"v":1,"j":{"v":1,"chain":"x","link":["a:1"],"api":["b:2"]},"p":{"status":403,"code":"node-removed"}}`,
		`{"restarts":18446744073709551615,"changes":1}`,
		`{"v":1,"until":"2026-01-02T03:04:05Z","cluster":"edge"}`,
		`{"v":1,"namespace":"default","name":"a","version":"x","key":"k","sealed":"eA==","created":"0001-01-01T00:00:00Z","by":"b"}`,
		`{"v":1,"t":"H4sIAAAAAAAA/w=="}`,
		`{"v":1,"have":{"n":1},"secrets":[{"sealed":"eA=="},{}],"orders":[{"id":"a.b.0"}],"routes":[{"endpoints":[{}]}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, pair := range [][2]any{
			{new(wire.Report), new(wire.Report)}, {new(wire.ReportReply), new(wire.ReportReply)},
			{new(wire.Fetch), new(wire.Fetch)}, {new(wire.FetchReply), new(wire.FetchReply)},
			{new(wire.Down), new(wire.Down)}, {new(wire.Ask), new(wire.Ask)}, {new(wire.ExecAnswer), new(wire.ExecAnswer)}, {new(wire.WatchEvent), new(wire.WatchEvent)}, {new(wire.Answer), new(wire.Answer)}, {new(wire.MetricsPage), new(wire.MetricsPage)}, {new(wire.WorkerTop), new(wire.WorkerTop)}, {new(wire.TopPage), new(wire.TopPage)},
			{new(wire.Share), new(wire.Share)}, {new(wire.Order), new(wire.Order)},
			{new(wire.InstanceStatus), new(wire.InstanceStatus)}, {new(wire.WorkerInfo), new(wire.WorkerInfo)},
			{new(wire.SealedSecret), new(wire.SealedSecret)}, {new(wire.Secret), new(wire.Secret)},
			{new(wire.Reported), new(wire.Reported)}, {new(wire.Aggregate), new(wire.Aggregate)},
			{new(wire.RenewRequest), new(wire.RenewRequest)}, {new(wire.RenewReply), new(wire.RenewReply)},
			{new(wire.Revocation), new(wire.Revocation)}, {new(wire.JoinReply), new(wire.JoinReply)},
			{new(wire.EngineOrders), new(wire.EngineOrders)}, {new(wire.EngineState), new(wire.EngineState)},
			{new(wire.Holdings), new(wire.Holdings)}, {new(wire.LocalChange), new(wire.LocalChange)}, {new(wire.Conflict), new(wire.Conflict)},
			{new(wire.Tally), new(wire.Tally)},
		} {
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
