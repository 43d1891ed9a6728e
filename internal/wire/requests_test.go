package wire

import (
	"testing"

	"github.com/verge-edge/verge/api"
)

func TestByRequest(t *testing.T) {
	for name, c := range map[string]struct {
		route Route
		want  bool
	}{
		"http by rotation":           {Route{Policy: "round-robin", Ports: []api.Port{{Name: "http", Protocol: "http"}}}, false},
		"http by fastest":            {Route{Policy: "fastest", Ports: []api.Port{{Name: "http", Protocol: "http"}}}, true},
		"grpc by billiard":           {Route{Policy: "billiard", Ports: []api.Port{{Name: "grpc", Protocol: "grpc"}}}, true},
		"tcp by fastest":             {Route{Policy: "fastest", Ports: []api.Port{{Name: "tcp", Protocol: "tcp"}}}, false},
		"udp by fastest":             {Route{Policy: "fastest", Ports: []api.Port{{Name: "dns", Protocol: "udp"}}}, false},
		"http that needs it":         {Route{Requests: RequestRules{Needed: true}, Ports: []api.Port{{Name: "http"}}}, true},
		"tcp beside what needs it":   {Route{Requests: RequestRules{Needed: true}, Ports: []api.Port{{Name: "tcp", Protocol: "tcp"}}}, false},
		"http by nobody's choice":    {Route{Policy: "round-robin", Requests: RequestRules{Policy: "fastest"}, Ports: []api.Port{{Name: "http", Protocol: "http"}}}, true},
		"tcp by nobody's choice":     {Route{Policy: "round-robin", Requests: RequestRules{Policy: "fastest"}, Ports: []api.Port{{Name: "tcp", Protocol: "tcp"}}}, false},
		"a policy that nobody knows": {Route{Policy: "best", Ports: []api.Port{{Name: "http", Protocol: "http"}}}, false},
	} {
		if got := c.route.ByRequest(&c.route.Ports[0]); got != c.want {
			t.Errorf("%s: by request is %v, want %v", name, got, c.want)
		}
		if got := c.route.ByRequestAt(c.route.Ports[0].Name); got != c.want {
			t.Errorf("%s: by request at its name is %v, want %v", name, got, c.want)
		}
		if c.route.ByRequestAt("other") {
			t.Errorf("%s: a port that is not there is by request", name)
		}
	}
}

func TestRequestRulesDefaults(t *testing.T) {
	for _, c := range []struct {
		rules         RequestRules
		places, waits int
	}{
		{RequestRules{}, DefaultConcurrency, DefaultQueueMax},
		{RequestRules{Concurrency: 3, QueueMax: 4}, 3, 4},
		{RequestRules{Concurrency: -1, QueueMax: -1}, 0, 0},
	} {
		if p, w := c.rules.Places(), c.rules.MayWait(); p != c.places || w != c.waits {
			t.Errorf("%+v: %d places, %d may wait, want %d and %d", c.rules, p, w, c.places, c.waits)
		}
	}
}

func TestRequestsOf(t *testing.T) {
	zero, three, timeout := 0, 3, api.Duration(2e9)
	http, said := []api.Port{{Name: "http", Protocol: "http"}}, api.Policy{Name: api.PolicyRoundRobin}
	for name, c := range map[string]struct {
		service api.Service
		want    RequestRules
	}{
		"silent":        {api.Service{}, RequestRules{}},
		"bounded":       {api.Service{Concurrency: &three, QueueMax: &three}, RequestRules{Needed: true, Concurrency: 3, QueueMax: 3}},
		"none":          {api.Service{Concurrency: &zero, QueueMax: &zero}, RequestRules{Needed: true, Concurrency: -1, QueueMax: -1}},
		"timeout":       {api.Service{Timeout: &timeout}, RequestRules{Needed: true, Timeout: timeout}},
		"tcp":           {api.Service{Ports: []api.Port{{Name: "tcp", Protocol: "tcp"}}, Policy: said}, RequestRules{}},
		"http":          {api.Service{Ports: http}, RequestRules{Policy: "fastest", Concurrency: -1}},
		"http rotates":  {api.Service{Ports: http, Policy: said}, RequestRules{Concurrency: -1}},
		"http in time":  {api.Service{Ports: http, Timeout: &timeout}, RequestRules{Needed: true, Policy: "fastest", Concurrency: -1, Timeout: timeout}},
		"http in a row": {api.Service{Ports: http, QueueMax: &three}, RequestRules{Needed: true, Policy: "fastest", QueueMax: 3}},
		"http in SLO":   {api.Service{Ports: http, SLO: &timeout}, RequestRules{Needed: true, Policy: "fastest", SLO: timeout}},
		"http from one to three": {
			api.Service{Ports: http, Replicas: api.Replicas{Min: 1, Max: 3}},
			RequestRules{Needed: true, Policy: "fastest", Elastic: true},
		},
		"function": {api.Service{Runtime: api.Wasm}, RequestRules{Needed: true}},
	} {
		if got := RequestsOf(&c.service); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
