// Command boutique stands in for every program of an online shop: it answers a request
// with the tree of who answered where and how long each hop took. Its arguments
// are the services that it calls for each request, all at the same time.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of what a call may take and bring.
const (
	patience  = 10 * time.Second
	maxAnswer = 1 << 20
	maxDepth  = 16 // of calls; more is a circle
)

// depthHeader counts the calls above a request.
const depthHeader = "Boutique-Depth"

// hop is one service's part of an answer.
type hop struct {
	Service  string `json:"service"`
	Instance string `json:"instance,omitempty"`
	Cluster  string `json:"cluster,omitempty"`
	Worker   string `json:"worker,omitempty"`
	// TookUS is how long its caller waited, in microseconds; of the first, how long
	// it took itself.
	TookUS int64  `json:"took_us"`
	Error  string `json:"error,omitempty"`
	Calls  []hop  `json:"calls,omitempty"`
}

// failed says whether something in the tree did.
func (h hop) failed() bool {
	for _, c := range h.Calls {
		if c.failed() {
			return true
		}
	}
	return h.Error != ""
}

// service is this instance.
type service struct {
	self   hop
	calls  map[string]string // addresses of the services that it calls
	order  []string
	client *http.Client
}

// newService reads who this is from the environment that Verge sets, and where
// the services are that it calls: VERGE_<SERVICE>_ADDR has host and port.
func newService(calls []string, env func(string) string) (*service, error) {
	s := &service{
		self:  hop{Service: env("VERGE_SERVICE"), Instance: env("VERGE_INSTANCE"), Cluster: env("VERGE_CLUSTER"), Worker: env("VERGE_WORKER")},
		calls: map[string]string{}, order: calls,
		client: &http.Client{Timeout: patience},
	}
	for _, name := range calls {
		variable := "VERGE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_ADDR"
		if s.calls[name] = env(variable); s.calls[name] == "" {
			return nil, fmt.Errorf("%s is not set: is %s a service of this application, with a port?", variable, name)
		}
	}
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	depth, err := strconv.Atoi(cmp.Or(r.Header.Get(depthHeader), "0"))
	if err != nil || depth < 0 || depth > maxDepth {
		http.Error(w, "these services call each other in a circle", http.StatusLoopDetected)
		return
	}
	answer := s.self
	answer.Calls = make([]hop, len(s.order))
	var all sync.WaitGroup
	for i, name := range s.order {
		all.Go(func() { answer.Calls[i] = s.call(r.Context(), name, depth+1) })
	}
	all.Wait()
	answer.TookUS = time.Since(begin).Microseconds()
	w.Header().Set("Content-Type", "application/json")
	if answer.failed() {
		w.WriteHeader(http.StatusBadGateway)
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(answer) // an error is a caller that has gone
}

// call asks another service. What went wrong is in the hop.
func (s *service) call(ctx context.Context, name string, depth int) hop {
	begin := time.Now()
	h, err := s.ask(ctx, name, depth)
	h.TookUS = time.Since(begin).Microseconds()
	if err != nil {
		log.Printf("calling %s: %v", name, err)
		h.Service, h.Error = name, err.Error()
	}
	return h
}

func (s *service) ask(ctx context.Context, name string, depth int) (h hop, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.calls[name]+"/", nil)
	if err != nil {
		return h, err
	}
	req.Header.Set(depthHeader, strconv.Itoa(depth))
	resp, err := s.client.Do(req)
	if err != nil {
		return h, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return h, err
	}
	// Whoever answers with a tree that failed below says so in it.
	if err := json.Unmarshal(body, &h); err != nil || h.Service == "" {
		return hop{}, fmt.Errorf("%s: %.100s", resp.Status, strings.TrimSpace(string(body)))
	}
	return h, nil
}

func main() {
	s, err := newService(os.Args[1:], os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: net.JoinHostPort(os.Getenv("VERGE_LISTEN"), os.Getenv("PORT")), Handler: s, ReadHeaderTimeout: 10 * time.Second}
	log.Printf("%s calls %v, listening on %s", s.self.Service, s.order, server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}
