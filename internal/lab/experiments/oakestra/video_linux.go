package oakestra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
)

// videoProgram is what examples/video/setup.sh makes.
const videoProgram = "verge-video"

// findVideo looks for it beside this program, where setup.sh puts it, and in the PATH.
func findVideo() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), videoProgram)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(videoProgram)
	if err != nil {
		return "", fmt.Errorf("%s, which makes a pipeline of OpenCV, is neither beside verge nor in the PATH: make it with sh examples/video/setup.sh, in a clone of the repository (half a minute, 290 MB below bin/)", videoProgram)
	}
	return filepath.Abs(path)
}

// Video can be run where its programs are.
func Video() experiment.Experiment {
	x := experiment.Experiment{
		Name: "oakestra-video", Source: "Oakestra fig. 9", Emulated: true,
		Shows: "how long each stage of a video pipeline takes on four workers of one core each, against the same programs started without Verge; frames by value and by reference",
		Lab:   runVideo,
		Plot:  &experiment.Plot{X: "stage", Series: "platform", Metric: "stage_time", Title: "computing time of a frame, ms, by stage"},
	}
	if _, err := findVideo(); err != nil {
		x.Lab, x.Shows, x.Plot, x.Missing = nil, "", nil, err.Error()
	}
	return x
}

// Stages of the pipeline, in the order of a frame, and the hosts that they run on
// without Verge.
var (
	videoStages = []string{"source", "aggregation", "detection", "tracking"}
	videoHosts  = map[string]string{"source": "v1", "aggregation": "v2", "detection": "v3", "tracking": "v4"}
)

const (
	videoPort    = "8300"
	native       = "native"
	onVerge      = "verge"
	byValue      = "value"
	byReference  = "reference"
	videoStart   = time.Minute
	videoTimeout = 10 * time.Minute
)

// videoFrame is what the pipeline says of a frame, in ms.
type videoFrame struct {
	Total  float64            `json:"total"`
	Stages map[string]float64 `json:"stages"` // by the clock
	CPU    map[string]float64 `json:"cpu"`    // on the processor
}

func runVideo(ctx context.Context, e *experiment.Env) (err error) {
	rounds := experiment.Quickly(e.Quick, 2, 40)
	rtt := api.Duration(time.Millisecond)
	f := lab.File{
		Links: lab.Links{Default: lab.LinkSpec{RTT: &rtt}},
		Hosts: map[string]lab.Host{"root": {Role: lab.RoleRoot}, "edge": {Role: lab.RoleCluster}},
	}
	program, err := findVideo()
	if err != nil {
		return err
	}
	for i, stage := range videoStages {
		f.Hosts[videoHosts[stage]] = lab.Host{Cores: 1}
		f.Hosts[videoWorker(i)] = lab.Host{Role: lab.RoleWorker, Cores: 1, Flags: []string{"--network", "loopback", "--cpus", "1", "--reserve", "0%", "--label", "stage=" + stage}}
	}
	l, err := e.Up(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	for _, stage := range videoStages {
		args := []string{"PORT=" + videoPort, "VERGE_LISTEN=0.0.0.0"}
		for _, other := range videoStages {
			args = append(args, api.EnvName(other)+"="+net.JoinHostPort(l.Address(videoHosts[other]).String(), videoPort))
		}
		if _, err := l.Start(videoHosts[stage], "env", append(args, program, stage)...); err != nil {
			return err
		}
	}
	client, err := l.Client("root")
	if err != nil {
		return err
	}
	if _, err := client.Applications.Apply(ctx, []byte(videoDescriptor(program)), false); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	done, err := experiment.Poll(ctx, videoStart, func() (bool, error) {
		v, err := client.Applications.Get(ctx, "video")
		return v.Holds, err
	})
	if err == nil && !done {
		err = fmt.Errorf("the pipeline does not run after %v", videoStart)
	}
	if err != nil {
		return err
	}
	entries, err := videoEntry(ctx, e, l)
	if err != nil {
		return err
	}
	at := map[string][2]string{native: {"root", net.JoinHostPort(l.Address(videoHosts["source"]).String(), videoPort)}, onVerge: entries}
	meter, err := l.Measure([][2]string{{"w1", "w2"}, {videoHosts["source"], videoHosts["aggregation"]}})
	if err != nil {
		return err
	}
	got := map[[2]string][]videoFrame{}
	// A frame each in turn, so that what else the machine does hits all of them alike.
	for round := range rounds + 1 {
		for _, c := range [][2]string{{native, byValue}, {onVerge, byValue}, {onVerge, byReference}} {
			list, err := watchVideo(ctx, l, at[c[0]], c[1], 1)
			if err != nil {
				_, merr := meter.Stop()
				return errors.Join(fmt.Errorf("%s by %s: %w", c[0], c[1], err), merr)
			}
			if round > 0 { // what is loaded with the first frame is not measured
				got[c] = append(got[c], list...)
			}
		}
	}
	a, err := meter.Stop()
	if err != nil {
		return err
	}
	videoRows(e, got)
	e.Measured(0, a)
	return nil
}

// videoPaper are the times that the paper prints, in ms, with its detector and tracker:
// the others are in its picture alone.
var videoPaper = map[string]float64{"tracking": 350}

// wantOverNative is what the stage that computes most may take of the processor on
// Verge, next to native.
const wantOverNative = 1.10

// videoRows are the medians, which a burst of other work on the machine leaves alone.
func videoRows(e *experiment.Env, got map[[2]string][]videoFrame) {
	middle := func(c [2]string, of func(videoFrame) float64) float64 {
		var all []float64
		for _, f := range got[c] {
			all = append(all, of(f))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	base := [2]string{native, byValue}
	for _, c := range slices.SortedFunc(maps.Keys(got), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		for _, stage := range videoStages {
			params := map[string]any{"platform": c[0], "by": c[1], "stage": stage}
			of := func(f videoFrame) float64 { return f.Stages[stage] }
			cpu := func(f videoFrame) float64 { return f.CPU[stage] }
			r := experiment.Row{Params: params, Metric: "stage_time", Unit: "ms", Measured: middle(c, of)}
			x := experiment.Row{Params: params, Metric: "stage_cpu", Unit: "ms", Measured: middle(c, cpu)}
			if v, ok := videoPaper[stage]; ok && c[0] == onVerge {
				r.Paper, r.Note = experiment.Known(v), "the paper: 300 to 400 ms, with another tracker"
			}
			if c == base {
				e.Row(r)
				e.Row(x)
				continue
			}
			r.Expected, r.Note = experiment.Known(middle(base, of)), strings.TrimSuffix("expected is native; "+r.Note, "; ")
			x.Expected, x.Note = experiment.Known(middle(base, cpu)), "expected is native"
			e.Row(r)
			e.Row(x)
			over := experiment.Row{Params: params, Metric: "cpu_over_native", Unit: "1", Expected: experiment.Known(1), Measured: middle(c, cpu) / middle(base, cpu)}
			if stage == "detection" && !e.Quick && over.Measured > wantOverNative {
				over.Short = fmt.Sprintf("detection takes more than %.2f × what it does without Verge", wantOverNative)
			}
			e.Row(over)
		}
		total := func(f videoFrame) float64 { return f.Total }
		r := experiment.Row{Params: map[string]any{"platform": c[0], "by": c[1]}, Metric: "frame_time", Unit: "ms", Measured: middle(c, total)}
		if c != base {
			r.Expected, r.Note = experiment.Known(middle(base, total)), "expected is native"
		}
		e.Row(r)
	}
}

// videoDescriptor has each stage on a worker of its own, which has the processor that
// its native counterpart has.
func videoDescriptor(program string) string {
	text := "application: video\nservices:\n"
	for _, stage := range videoStages {
		text += fmt.Sprintf("  %s:\n    command: [%q, %s]\n    ports: [{name: http}]\n    readiness: {http: {path: /healthz}, timeout: 5s}\n    resources: {cpu: 800m, memory: 256Mi}\n    limits: {cpu: 1}\n    affinity: {labels: {stage: %s}}\n", stage, program, stage, stage)
	}
	return text
}

// videoWorker is the one of a stage, by its number.
func videoWorker(stage int) string { return fmt.Sprintf("w%d", stage+1) }

// videoEntry is the address of the source on the worker that runs it.
func videoEntry(ctx context.Context, e *experiment.Env, l *lab.Lab) (at [2]string, err error) {
	site, err := l.Client("edge")
	if err != nil {
		return at, err
	}
	list, err := site.Instances.List(ctx, "video", "source")
	if err != nil || len(list) != 1 {
		return at, fmt.Errorf("%d instances of the source: %w", len(list), err)
	}
	found, err := experiment.Poll(ctx, videoStart, func() (bool, error) {
		entries, err := site.Workers.Entries(ctx, "edge", list[0].Worker)
		for _, x := range entries {
			if x.Service == "source" {
				at = [2]string{list[0].Worker, x.Addr}
			}
		}
		return at[1] != "", err
	})
	if err == nil && !found {
		err = errors.New("the source has no address on its worker")
	}
	e.Say("%s: the source runs on %s", e.Name, list[0].Worker)
	return at, err
}

// watchVideo has the pipeline at an address work on some frames, asked from a host.
func watchVideo(ctx context.Context, l *lab.Lab, at [2]string, by string, frames int) (list []videoFrame, err error) {
	ctx, cancel := context.WithTimeout(ctx, videoTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return l.Dial(ctx, at[0], network, addr)
		},
	}}
	var last error
	ok, err := experiment.Poll(ctx, videoStart, func() (bool, error) {
		list, last = askVideo(ctx, client, fmt.Sprintf("http://%s/?frames=%d&by=%s", at[1], frames, by))
		return last == nil, ctx.Err()
	})
	if err == nil && !ok {
		err = last
	}
	if err == nil && len(list) != frames {
		err = fmt.Errorf("%d frames instead of %d came out", len(list), frames)
	}
	return list, err
}

func askVideo(ctx context.Context, client *http.Client, url string) (list []videoFrame, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	const most = 16 << 20
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, data[:min(len(data), 300)])
	}
	return list, json.Unmarshal(data, &list)
}
