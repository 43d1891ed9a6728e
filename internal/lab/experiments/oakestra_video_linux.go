package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab"
)

// videoProgram is what examples/video/setup.sh makes.
const videoProgram = "verge-video"

// oakestraVideo can be run where its programs are.
func oakestraVideo() Experiment {
	x := Experiment{
		Name: "oakestra-video", Source: "Oakestra fig. 9", Emulated: true,
		Shows: "how long each stage of a video pipeline takes on four workers of one core each, against the same programs started without Verge; frames by value and by reference",
		run:   runVideo,
		plot:  &plot{x: "stage", series: "platform", metric: "stage_time", title: "computing time of a frame, ms, by stage"},
	}
	if _, err := exec.LookPath(videoProgram); err != nil {
		x.run, x.Shows, x.plot = nil, "", nil
		x.Missing = "its programs are not in the PATH here: sh examples/video/setup.sh bin, in a clone of the repository, makes them"
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
	Stages map[string]float64 `json:"stages"`
}

func runVideo(ctx context.Context, e *env) (err error) {
	frames, rounds := 40, 3
	if e.Quick {
		frames, rounds = 4, 1
	}
	rtt := api.Duration(time.Millisecond)
	f := lab.File{
		Links: lab.Links{Default: lab.LinkSpec{RTT: &rtt}},
		Hosts: map[string]lab.Host{"root": {Role: lab.RoleRoot}, "edge": {Role: lab.RoleCluster}},
	}
	for i, stage := range videoStages {
		f.Hosts[videoHosts[stage]] = lab.Host{}
		f.Hosts[fmt.Sprintf("w%d", i+1)] = lab.Host{Role: lab.RoleWorker, Flags: []string{"--network", "loopback", "--cpus", "1"}}
	}
	l, err := e.up(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	for _, stage := range videoStages {
		args := []string{"PORT=" + videoPort, "VERGE_LISTEN=0.0.0.0"}
		for _, other := range videoStages {
			args = append(args, api.EnvName(other)+"="+net.JoinHostPort(l.Address(videoHosts[other]).String(), videoPort))
		}
		if _, err := l.Start(videoHosts[stage], "env", append(args, videoProgram, stage)...); err != nil {
			return err
		}
	}
	client, err := l.Client("root")
	if err != nil {
		return err
	}
	if _, err := client.Apply(ctx, []byte(videoDescriptor()), false); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	done, err := poll(ctx, videoStart, func() (bool, error) {
		v, err := client.Application(ctx, "video")
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
	// In turn, so that what else the machine does hits all of them alike.
	for round := range rounds + 1 {
		for _, c := range [][2]string{{native, byValue}, {onVerge, byValue}, {onVerge, byReference}} {
			n := frames / rounds
			if round == 0 {
				n = 1 // what is loaded with the first frame is not measured
			}
			list, err := watchVideo(ctx, l, at[c[0]], c[1], n)
			if err != nil {
				_, merr := meter.Stop()
				return errors.Join(fmt.Errorf("%s by %s: %w", c[0], c[1], err), merr)
			}
			if round > 0 {
				got[c] = append(got[c], list...)
			}
		}
	}
	a, err := meter.Stop()
	if err != nil {
		return err
	}
	e.videoRows(got)
	e.measured(0, a)
	return nil
}

// videoRows are the medians, which a burst of other work on the machine leaves alone.
func (e *env) videoRows(got map[[2]string][]videoFrame) {
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
			of := func(f videoFrame) float64 { return f.Stages[stage] }
			r := Row{Params: map[string]any{"platform": c[0], "by": c[1], "stage": stage}, Metric: "stage_time", Unit: "ms", Measured: middle(c, of)}
			if c != base {
				r.Expected, r.Note = known(middle(base, of)), "expected is native"
			}
			e.row(r)
		}
		total := func(f videoFrame) float64 { return f.Total }
		r := Row{Params: map[string]any{"platform": c[0], "by": c[1]}, Metric: "frame_time", Unit: "ms", Measured: middle(c, total)}
		if c != base {
			r.Expected, r.Note = known(middle(base, total)), "expected is native"
		}
		e.row(r)
	}
}

func videoDescriptor() string {
	text := "application: video\nservices:\n"
	for _, stage := range videoStages {
		text += fmt.Sprintf("  %s:\n    command: [%s, %s]\n    ports: [{name: http}]\n    readiness: {http: {path: /healthz}, timeout: 5s}\n    resources: {cpu: 600m, memory: 100Mi}\n    limits: {cpu: 1}\n", stage, videoProgram, stage)
	}
	return text
}

// videoEntry is the address of the source on the worker that runs it.
func videoEntry(ctx context.Context, e *env, l *lab.Lab) (at [2]string, err error) {
	site, err := l.Client("edge")
	if err != nil {
		return at, err
	}
	list, err := site.Instances(ctx, "video", "source")
	if err != nil || len(list) != 1 {
		return at, fmt.Errorf("%d instances of the source: %w", len(list), err)
	}
	found, err := poll(ctx, videoStart, func() (bool, error) {
		entries, err := site.Entries(ctx, "edge", list[0].Worker)
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
	e.Say("%s: the source runs on %s", e.name, list[0].Worker)
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
	ok, err := poll(ctx, videoStart, func() (bool, error) {
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
