package study

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/rest"
)

// StudiesReal are the experiments in the lab, which have the names and the pictures of those in virtual time.
var StudiesReal = []experiment.Experiment{
	studyReal(CallMethod, "images in the requests, or fetched by the pods from the edge; and one image for all requests, which workers keep", runStudyCallMethod),
	studyReal(DataSource, "pods fetch images from the edge, the fog or the cloud", runStudyDataSource),
	studyReal(Bandwidth, "pods fetch images from the edge, with every node's bandwidth limited", runStudyBandwidth),
	studyReal(Gateway, "the gateway at the edge, in the fog or in the cloud, for images in the requests and for images fetched from the edge", runStudyGateway),
}

func studyReal(x experiment.Experiment, shows string, sweep func(context.Context, *experiment.Env, studyForm) error) experiment.Experiment {
	return experiment.Experiment{
		Name: x.Name, Source: x.Source, Emulated: true, Plot: x.Plot,
		Shows: shows + "; expected is what virtual time says",
		Lab:   func(ctx context.Context, e *experiment.Env) error { return studyInLab(ctx, e, sweep) },
	}
}

// measure runs a case: as many clients as there are pods send the next request when
// the one before is answered. What is expected is virtual time's answer.
func (b *studyBed) measure(ctx context.Context, c studyCase) (out studyResult, err error) {
	begun := time.Now()
	if err := b.place(ctx, c); err != nil {
		return out, err
	}
	if err := b.links(c); err != nil {
		return out, err
	}
	const span = 10 * time.Minute
	simulated, err := c.stats(b.e.Seed, span)
	if err != nil {
		return out, err
	}
	expected := simulated.Throughput(span) * b.speed
	if c.source != "" {
		if err := b.put(ctx, c, expected); err != nil {
			return out, err
		}
	}
	before, err := b.Stats()
	if err != nil {
		return out, err
	}
	ready, all := time.Now(), 0
	done, by, err := b.drive(ctx, c)
	if err != nil {
		return out, err
	}
	for _, n := range by {
		all += n
	}
	b.e.Say("%s: %d pods placed by %s, gateway %s, data %s: %d of %d requests in %v (%v to prepare, %v in all), virtual time has %.0f", b.e.Name, len(c.order()), c.placement,
		c.gateway, cmp.Or(c.source, "sent along"), done, all, b.window, ready.Sub(begun).Round(time.Millisecond), time.Since(begun).Round(time.Millisecond), expected*b.window.Seconds())
	after, err := b.Stats()
	if err != nil {
		return out, err
	}
	from := []string{studyHub}
	sent := b.Between(after, from, b.nodes).Bytes - b.Between(before, from, b.nodes).Bytes
	out = studyResult{throughput: float64(done) / b.window.Seconds(), expected: experiment.Known(experiment.Rounded(expected))}
	out.more = append(out.more, experiment.Row{Metric: "fetched", Unit: "kB", Measured: experiment.Rounded(float64(sent) / 1000 / float64(all)), Note: "what left the store's host, for each request"})
	want, got := studyShares(simulated.By), studyShares(by)
	for _, tier := range slices.Sorted(maps.Keys(want)) {
		out.more = append(out.more, experiment.Row{Metric: "share_" + tier, Unit: "1", Expected: experiment.Known(experiment.Rounded(want[tier])), Measured: experiment.Rounded(got[tier])})
	}
	return out, nil
}

// picture is an image that no other one is like.
func picture(n int64) []byte {
	out := make([]byte, studyImage)
	binary.BigEndian.PutUint64(out, uint64(n))
	return out
}

func imageName(n int) string { return fmt.Sprintf("images/%d", n) }

// put has the store hold as many new images as so many requests a second need, and
// some more.
func (b *studyBed) put(ctx context.Context, c studyCase, throughput float64) error {
	const atOnce, warm = 4, 1.6
	b.images = int(throughput*warm*b.window.Seconds()) + 4*len(c.order())
	if c.kept {
		b.images = 1
	}
	generation := time.Now().UnixNano() // images of former cases are others
	errs := make([]error, atOnce)
	var all sync.WaitGroup
	for w := range atOnce {
		all.Go(func() {
			for i := w; i < b.images && errs[w] == nil; i += atOnce {
				_, errs[w] = b.hub.Objects.Put(ctx, rest.ObjectUpload{Namespace: "default", Name: imageName(i), Type: "image/jpeg", Size: studyImage, Body: bytes.NewReader(picture(generation + int64(i)))})
			}
		})
	}
	all.Wait()
	b.next.Store(0)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("put images: %w", err)
	}
	return nil
}

// drive sends requests until the window is over, and returns how many were answered
// within it, and in all by each pod. The window begins when each has answered one.
func (b *studyBed) drive(ctx context.Context, c studyCase) (done int, by map[string]int, err error) {
	by = map[string]int{}
	pods := len(c.order())
	at := net.JoinHostPort(b.Address(studyGateways[c.gateway]).String(), studyPort)
	transport := &http.Transport{MaxIdleConnsPerHost: pods, DialContext: b.dial}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Minute}
	// An empty request is answered at once: the gateway has got the routes.
	var last error
	ready, err := experiment.Poll(ctx, studyPatience, func() (bool, error) {
		_, last = b.ask(ctx, client, at, studyCase{}, nil)
		return last == nil, ctx.Err()
	})
	if err == nil && !ready {
		err = fmt.Errorf("the gateway at the %s does not serve: %w", c.gateway, last)
	}
	if err != nil {
		return 0, nil, err
	}
	var (
		mu    sync.Mutex
		begin time.Time // zero: not all pods have answered yet
		errs  []error
		all   sync.WaitGroup
	)
	start := time.Now()
	over := func(now time.Time) bool { // mu is held
		return len(errs) > 0 || ctx.Err() != nil || !begin.IsZero() && now.After(begin.Add(b.window)) || begin.IsZero() && now.Sub(start) > studyPatience
	}
	image := picture(0)
	for range pods {
		all.Go(func() {
			for {
				pod, err := b.ask(ctx, client, at, c, image)
				now := time.Now()
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				}
				if err == nil {
					by[pod]++
				}
				if err == nil && !begin.IsZero() && now.Before(begin.Add(b.window)) {
					done++
				}
				if len(by) == pods && begin.IsZero() {
					begin = now
				}
				end := over(now)
				mu.Unlock()
				if end {
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return 0, nil, err
	}
	if begin.IsZero() {
		return 0, nil, fmt.Errorf("of %d pods %d answered within %v", pods, len(by), studyPatience)
	}
	if n := int(b.next.Load()); c.source != "" && !c.kept && n > b.images {
		b.e.Say("%s: %d of %d requests were for an image that had been asked for before", b.e.Name, n-b.images, n)
	}
	return done, by, nil
}

// ask for one image to be worked on, and return who has; without an image, and without
// a source, it only asks whether somebody is there.
func (b *studyBed) ask(ctx context.Context, client *http.Client, at string, c studyCase, image []byte) (pod string, err error) {
	if c.source != "" {
		image = nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at+"/", bytes.NewReader(image))
	if err != nil {
		return "", err
	}
	req.Host = studyApp + ".localhost"
	if c.source != "" {
		req.Header.Set(podRef, "default/"+imageName(int(b.next.Add(1)-1)%b.images))
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, studyAnswer))
	err = errors.Join(err, resp.Body.Close())
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", resp.Status, body)
	}
	return resp.Header.Get(podName), err
}
