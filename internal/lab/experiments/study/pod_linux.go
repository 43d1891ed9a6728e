package study

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/lab/experiment"
)

// The study's function as an instance of Verge: a program that listens at $PORT. It
// works on one image at a time, for a drawn time in which it needs no processor, so
// that dozens of them fit on two. The image is the body, or an object that the field
// Verge-Object names, which is read from the worker's door to the object store.

const (
	podWork = "LAB_POD_WORK" // mean by worker: fog-1=300ms,cloud-1=440ms
	podName = "Lab-Pod"      // field of the answer: worker and instance
	podRef  = "Verge-Object"
	podBody = 16 << 20 // bytes of an image at most
)

// labPod is one at work.
type labPod struct {
	name, objects string
	mean          time.Duration
	client        *http.Client

	one  sync.Mutex // image at a time; it guards draw
	draw *rand.Rand
}

// ServePod is an instance of the study's function, by its environment, until ctx ends.
func ServePod(ctx context.Context) error {
	p := &labPod{objects: os.Getenv("VERGE_OBJECTS"), client: &http.Client{Timeout: 5 * time.Minute}}
	worker := os.Getenv("VERGE_WORKER")
	p.name = worker + "/" + os.Getenv("VERGE_INSTANCE")
	for part := range strings.SplitSeq(os.Getenv(podWork), ",") {
		if node, mean, _ := strings.Cut(part, "="); node == worker {
			d, err := time.ParseDuration(mean)
			if err != nil {
				return fmt.Errorf("%s: %w", podWork, err)
			}
			p.mean = d
		}
	}
	if p.mean <= 0 {
		return fmt.Errorf("%s does not say how long an image takes on %q: an experiment starts this program", podWork, worker)
	}
	ordinal, _ := strconv.ParseUint(os.Getenv("VERGE_ORDINAL"), 10, 64) // without: as the first one
	p.draw = rand.New(rand.NewPCG(ordinal, 1))
	ln, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("VERGE_LISTEN"), os.Getenv("PORT")))
	if err != nil {
		return err
	}
	s := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })() // requests end with it
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (p *labPod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, podBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.one.Lock()
	defer p.one.Unlock()
	if name := r.Header.Get(podRef); name != "" {
		if n, err = p.fetch(r.Context(), name); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
	// The mean of a lognormal is e^(mu+sigma²/2).
	sigma := math.Sqrt(math.Log1p(studyWork * studyWork))
	work := time.Duration(float64(p.mean) * math.Exp(sigma*p.draw.NormFloat64()-sigma*sigma/2))
	if n > 0 { // else nobody sends an image: it only asks who is there
		if experiment.Pause(r.Context(), work) != nil {
			return
		}
	}
	w.Header().Set(podName, p.name)
	_, _ = w.Write(make([]byte, studyAnswer)) // who asked may have left
}

// fetch reads an image from the object store and returns its size.
func (p *labPod) fetch(ctx context.Context, name string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.objects+"/"+name, nil)
	if err != nil {
		return 0, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the object %s: %s", name, resp.Status)
	}
	return n, err
}
