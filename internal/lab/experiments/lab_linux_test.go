package experiments_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments"
	"github.com/verge-edge/verge/internal/lab/labtest"
)

// TestMain builds what runs in the hosts.
func TestMain(m *testing.M) { os.Exit(labtest.Main(m, "../../..")) }

// quick runs the short form. How long something takes is not asserted: that
// depends on what else this machine does.
func quick(t *testing.T, name string) experiment.Rows {
	t.Helper()
	return try(t, name, 1)
}

// try is quick, and again where the experiment itself has failed: on a machine that stands
// still for seconds an instance does not answer its checks, and what it was asked is
// broken off. What fails each time is a fault.
func try(t *testing.T, name string, times int) experiment.Rows {
	t.Helper()
	labtest.Need(t)
	x, err := experiments.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	for ; ; times-- {
		rows, short, err := x.Run(t.Context(), experiment.Options{Quick: true, Seed: 1, Verge: labtest.Verge(), Tool: labtest.Tool(), Say: t.Logf})
		switch {
		case err != nil && times > 1:
			t.Logf("once more: %v", err)
			continue
		case err != nil:
			t.Fatal(err)
		case short != nil:
			t.Logf("on this machine, now: %v", short)
		}
		return rows
	}
}

func TestProxymityLatency(t *testing.T) {
	means, parts := 0, 0
	for _, r := range quick(t, "proxymity-latency") {
		switch r.Metric {
		case "load_share":
			parts++
			if r.Short != "" {
				t.Errorf("%v: %s", r.Params, r.Short)
			}
		case "mean_latency":
			means++
			t.Logf("%v: %.2f ms, expected %.2f", r.Params, r.Measured, *r.Expected)
			if r.ErrorP99 == nil {
				t.Errorf("%v does not say how wrong the emulator was", r.Params)
			}
		}
	}
	if means != 5 || parts != 4*11+5 {
		t.Errorf("%d means, %d shares", means, parts)
	}
}

// The quick forms run to their end, and each row says how wrong the emulator was.
// They wait much more than they compute.
func TestQuickForms(t *testing.T) {
	const any = -1
	computed := map[string]bool{"decision": true, "cheapest": true, "cheapest_over": true} // no link is needed
	for name, metrics := range map[string]map[string]int{
		"oakestra-deploy":  {"deploy_time": 3, "deploy_time_max": 3, "deployed_share": 3, "round_trips": 1},
		"oakestra-control": {"messages": 2, "packets": 2, "bytes": 2},
		"oakestra-idle":    {"cpu": 3, "memory": 3},
		"oakestra-stress":  {"deploy_time": 1, "deploy_cpu": 4, "cpu": 3, "memory": 3},
		"kubeedge-delay":   {"throughput": 6, "response_time": 6},
		"oakestra-balance": {"rtt": 4, "over_direct": 2, "over_one": 1, "overhead_over_one": 1},
		// How much is known so soon depends on what else this machine does.
		"proxymity-accuracy": {"known_share": 4, "error_median": any, "error_p90": any},
		"proxymity-overhead": {"cpu": 2, "memory": 2, "private_memory": 2, "packets": 4, "bytes": 4, "cpu_added": 1, "memory_added": 1, "packets_added": 2},
		"oakestra-split":     {"decision": 18, "cheapest": 1, "cheapest_over": 2, "idle_messages": 6, "messages": 2},
		"oakestra-tunnel":    {"download_time": 6, "over_plain": 2, "over_wireguard": 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]int{}
			for _, r := range quick(t, name) {
				got[r.Metric]++
				if r.Experiment != name || r.Measured < 0 && !strings.HasSuffix(r.Metric, "_added") || r.Unit == "" || len(r.Params) == 0 || (r.ErrorP50 == nil || r.ErrorP99 == nil) && !computed[r.Metric] {
					t.Errorf("%+v", r)
				}
				// Without distances workers say nothing to each other, and a cluster need not hear of
				// its workers in a second.
				silent := r.Params["with"] == "workers" || r.Metric == "idle_messages"
				if r.Measured == 0 && !strings.HasSuffix(r.Metric, "_share") && !silent {
					t.Errorf("%v: %s is 0", r.Params, r.Metric)
				}
				// An order and its answer take a round trip whatever the machine does.
				if r.Metric == "deploy_time" && r.Params["delay_ms"] == 250.0 && r.Measured < 250 {
					t.Errorf("%v: deployed after %.0f ms", r.Params, r.Measured)
				}
			}
			for metric, n := range metrics {
				if n == any {
					delete(got, metric)
					delete(metrics, metric)
				}
			}
			if !maps.Equal(got, metrics) {
				t.Errorf("rows %v, want %v", got, metrics)
			}
		})
	}
}

// The study's experiments with real roles, gateways, objects and requests: one after
// the other, since each has a dozen processes. Lab and simulator agree on who answers:
// that is what a policy decides, and does not depend on how busy this machine is.
func TestStudiesAgreeWithVirtualTime(t *testing.T) {
	off, cases := map[string]float64{}, 0.0
	for name, n := range map[string]int{"study-callmethod": 3, "study-datasource": 2, "study-bandwidth": 2, "study-gateway": 4} {
		t.Run(name, func(t *testing.T) {
			got, want := map[string]int{}, map[string]int{"throughput": n, "fetched": n, "share_edge": n, "share_fog": n, "share_cloud": n}
			for _, r := range quick(t, name) {
				if !strings.HasSuffix(r.Metric, "_over") {
					got[r.Metric]++
				}
				// Where images are sent along the store has nothing to send.
				if r.Measured < 0 || r.Measured == 0 && r.Metric != "fetched" || r.ErrorP50 == nil || r.Params["by"] != "lab" || (r.Expected == nil) != (r.Metric == "fetched" || r.Metric == "what_is_left_over") {
					t.Errorf("%+v", r)
				}
				// An image leaves the store for each request by reference, and for none else.
				if call := r.Params["call"]; r.Metric == "fetched" && call != nil && (r.Measured > 243.5) != (call == "reference") {
					t.Errorf("%v: %.1f kB were fetched for each request", r.Params, r.Measured)
				}
				// However fast the machine is, two lines of 8 Mbit/s carry 8.2 images a
				// second, beside those that six pods had when the window of 1.2 s began.
				if most := 2*8e6/8/243_500.0 + 6/1.2; r.Params["mbps"] == "1" && r.Metric == "throughput" && r.Measured > most {
					t.Errorf("%.1f images a second, and %.1f is what lines permit", r.Measured, most)
				}
				// On thin lines there are too few.
				if tier, ok := strings.CutPrefix(r.Metric, "share_"); ok && r.Params["mbps"] != "1" {
					off[tier] += r.Measured - *r.Expected
					cases += 1.0 / 3
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("rows %v, want %v", got, want)
			}
		})
	}
	for tier, sum := range off {
		if d := sum / cases; d < -0.08 || d > 0.08 {
			t.Errorf("the %s answers %+.3f of all requests more than in virtual time", tier, d)
		} else {
			t.Logf("the %s answers %+.3f of all requests more than in virtual time, in %.0f cases", tier, d, cases)
		}
	}
}

// The pipeline runs where its programs are; elsewhere the list says how to get them.
// CI does not have them: they are 90 MB to fetch, half a minute and more.
func TestVideo(t *testing.T) {
	x, err := experiments.Find("oakestra-video")
	if err != nil {
		if !strings.Contains(err.Error(), "setup.sh") {
			t.Fatalf("it is missing because %v", err)
		}
		t.Skipf("SKIPPED, the video pipeline was not run: %v", err)
	}
	got := map[string]int{}
	for _, r := range quick(t, x.Name) {
		got[r.Metric]++
		if r.Measured <= 0 || r.ErrorP50 == nil || (r.Expected == nil) != (r.Params["platform"] == "native") {
			t.Errorf("%+v", r)
		}
	}
	if !maps.Equal(got, map[string]int{"stage_time": 12, "stage_cpu": 12, "frame_time": 3, "cpu_over_native": 8}) {
		t.Errorf("rows %v", got)
	}
}

// A death is seen in the routes of both observers, and in the rules where there are
// some. That instances go on without their engine is no matter of speed.
func TestRouteChange(t *testing.T) {
	t.Parallel()
	got := map[string]bool{}
	for _, r := range quick(t, "route-change") {
		got[fmt.Sprint(r.Metric, " ", r.Params["died"], " ", r.Params["seen_from"])] = true
		if r.Measured <= 0 || r.ErrorP99 == nil {
			t.Errorf("%+v", r)
		}
		if r.Metric == "endpoints_kept" && r.Measured != *r.Expected {
			t.Errorf("%v endpoints are left after the death of an engine, not %v", r.Measured, *r.Expected)
		}
	}
	for _, want := range []string{
		"route_change instance same cluster", "route_change_max instance other cluster",
		"route_change worker same cluster", "route_change worker other cluster", "engine_back engine its worker", "endpoints_kept engine same cluster",
	} {
		if !got[want] {
			t.Errorf("there is no row %q", want)
		}
	}
}

// With --uplink and without: the rows are there, and what was sent has filled the
// lines. How long orders take is no matter of this test.
func TestControlUnderLoad(t *testing.T) {
	t.Parallel()
	got := map[string]int{}
	for _, r := range quick(t, "control-under-load") {
		got[r.Metric]++
		if r.ErrorP99 == nil || r.Measured <= 0 && !strings.HasSuffix(r.Metric, "_added") && r.Params["worker"] != "calm" {
			t.Errorf("%+v", r)
		}
		if r.Metric == "heartbeat_added" && (r.Expected != nil) != (r.Params["worker"] == "bounded") {
			t.Errorf("the promise is about who says what the line carries: %+v", r)
		}
	}
	want := map[string]int{
		"packet_delay": 3, "packet_delay_p99": 3, "heartbeat_silence": 3, "heartbeat_silence_max": 3, "order_answered": 3, "order_answered_max": 3, "instance_running": 3, "load_arrived": 3,
		"heartbeat_added": 2, "order_added": 2, "running_added": 2,
	}
	if !maps.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
}

// Those with requests by a dozen clients run alone: one after the other, through the
// routers, with a row of each policy and what virtual time says of it.
func TestQuickRequests(t *testing.T) {
	for name, metrics := range map[string]map[string]int{
		"kubeedge-local": {"response_time": 8, "throughput": 8, "over_round_robin": 2, "throughput_over": 2, "mean_over_winner": 2, "p99_over_winner": 2},
		"study-lb":       {"throughput": 3, "mean": 3, "p99": 3, "mean_over_winner": 1, "p99_over_winner": 1, "throughput_over": 2},
		"mu-lb":          {"mean": 4, "p99": 4, "mean_over_winner": 1, "p99_over_winner": 1, "p99_over": 2},
		"route-tails":    {"mean": 2, "p99": 2, "mean_of_quarter": 8, "growth_over": 1, "mean_over": 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, r := range try(t, name, 2) {
				got[r.Metric]++
				if r.Experiment != name || r.Params["by"] != "lab" || r.Measured <= 0 || r.ErrorP50 == nil || r.ErrorP99 == nil {
					t.Errorf("%+v", r)
				}
				if !strings.Contains(r.Metric, "over") && r.Expected == nil {
					t.Errorf("%v: nothing is expected of %s", r.Params, r.Metric)
				}
			}
			if !maps.Equal(got, metrics) {
				t.Errorf("rows %v, want %v", got, metrics)
			}
		})
	}
}
