package e2e

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/engineapi"
)

// strangersGetNothing knocks at every port without a certificate.
func (w *world) strangersGetNothing(t *testing.T) {
	for what, addr := range map[string]string{
		"root link": w.root.link, "cluster link": w.cluster["edge"].link, "data port": w.worker["edge-1"].data,
	} {
		for _, hello := range []string{
			"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
			"CONNECT {\"verbose\":false}\r\nPING\r\n",
			"verge 1 good.main.0 http\n",
		} {
			if got := knock(t, addr, hello); strings.Contains(got, "PONG") || strings.Contains(got, "200") || strings.Contains(got, "instance") {
				t.Errorf("%s answers %q to %q without TLS", what, got, hello)
			}
		}
		if got, err := throughTLS(addr, nil); err == nil {
			t.Errorf("%s speaks with a TLS client without certificate: %q", what, got)
		}
	}
	// Otherwise nothing would be shown by the silence above.
	for addr, dir := range map[string]string{
		w.root.link: w.cluster["edge"].dir, w.cluster["edge"].link: filepath.Join(w.worker["edge-1"].dir, engineapi.IdentityDir),
	} {
		pair := pairIn(t, dir)
		if got, err := throughTLS(addr, &pair); err != nil || got == "" {
			t.Errorf("%s does not answer who has a certificate: %v", addr, err)
		}
	}
	for _, x := range []*tier{w.root, w.cluster["edge"]} {
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		for _, path := range []string{"/v1/applications", "/v1/instances", "/v1/status", "/v1/workers", "/v1/events", "/v1/clusters"} {
			resp := must[*http.Response](t)(client.Get("https://" + x.api + path))
			b := must[[]byte](t)(io.ReadAll(resp.Body))
			_ = resp.Body.Close() // read only
			wantEqual(t, x.name+path+" without credentials", resp.StatusCode, http.StatusUnauthorized)
			if strings.Contains(string(b), "good") || !strings.Contains(string(b), "remedy") {
				t.Errorf("%s%s says %s", x.name, path, b)
			}
		}
		resp := must[*http.Response](t)(client.Post("https://"+x.api+"/v1/tokens", "application/json", strings.NewReader(`{"kind":"api"}`)))
		_ = resp.Body.Close() // only its status matters
		wantEqual(t, x.name+": a token without credentials", resp.StatusCode, http.StatusUnauthorized)
	}
}

// knock sends text over plain TCP and returns what comes back within a moment.
func knock(t *testing.T, addr, text string) string {
	t.Helper()
	c := must[net.Conn](t)(net.Dial("tcp", addr))
	defer func() { _ = c.Close() }() // nothing was to be kept
	_ = c.SetDeadline(time.Now().Add(700 * time.Millisecond))
	_, _ = io.WriteString(c, text) // it may close before
	got, _ := io.ReadAll(io.LimitReader(c, 4096))
	return string(got)
}

// throughTLS makes a TLS connection and returns the first line that the server
// sends in it when it is spoken to.
func throughTLS(addr string, pair *tls.Certificate) (string, error) {
	conf := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}
	if pair != nil {
		conf.Certificates = []tls.Certificate{*pair}
	}
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 2 * time.Second}, "tcp", addr, conf)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }() // nothing was to be kept
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	// In TLS 1.3 a client learns that it was refused when it reads.
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// credentialsOfOthers uses what one part of Verge has where another is meant.
func (w *world) credentialsOfOthers(t *testing.T) {
	w.addCluster("fog").answers()
	edge, fog := w.cluster["edge"], w.cluster["fog"]
	// The pair of a worker, as an intruder on its machine would have it.
	dir := filepath.Join(w.worker["edge-1"].dir, engineapi.IdentityDir)
	pair := pairIn(t, dir)
	nodePair := pairIn(t, edge.dir)
	operator := must[client.Context](t)(client.ReadContext(edge.contextFile()))
	op := must[tls.Certificate](t)(tls.X509KeyPair([]byte(operator.Cert), []byte(operator.Key)))
	for _, c := range []struct {
		what string
		at   *tier
		pair tls.Certificate
	}{
		{"a worker at its cluster", edge, pair},
		{"a worker at the root", w.root, pair},
		{"a worker at another cluster", fog, pair},
		{"a cluster at the root", w.root, nodePair},
		{"a cluster at another cluster", fog, nodePair},
		{"a cluster's operator at another cluster", fog, op},
	} {
		status, body := ask(t, c.at.api, c.pair)
		if status != http.StatusUnauthorized && status != http.StatusForbidden && status != 0 {
			t.Errorf("%s: status %d: %s", c.what, status, body)
		}
	}
	// At the root it is an operator: it may ask, and sees nothing of others.
	if status, body := ask(t, w.root.api, op); status != http.StatusOK || strings.Contains(body, "good") {
		t.Errorf("a cluster's operator at the root: status %d: %s", status, body)
	}
	if status, body := ask(t, edge.api, op); status != http.StatusOK {
		t.Errorf("the operator at the own cluster: status %d: %s", status, body)
	}
	// Tokens for the interface are good at the tier that made them only.
	bearer := strings.TrimSpace(edge.ok("token", "create", "--api"))
	for at, want := range map[*tier]bool{edge: true, fog: false, w.root: false} {
		e := must[client.Context](t)(client.ReadContext(at.contextFile()))
		e.Cert, e.Key, e.Token = "", "", bearer
		path := filepath.Join(w.dir, "bearer-"+at.name+".yaml")
		if err := client.WriteContext(path, e); err != nil {
			t.Fatal(err)
		}
		r := verge(t, path, "get", "apps")
		wantEqual(t, "edge's bearer token works at "+at.name, r.code == 0, want)
	}
}

// ask is one request with a client certificate; status 0 is a refused handshake.
func ask(t *testing.T, addr string, pair tls.Certificate) (status int, body string) {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}},
	}}
	resp, err := client.Get("https://" + addr + "/v1/applications")
	if err != nil {
		return 0, err.Error()
	}
	b := must[[]byte](t)(io.ReadAll(resp.Body))
	_ = resp.Body.Close() // read only
	return resp.StatusCode, string(b)
}

// pairIn finds a certificate and the key that belongs to it in a directory.
func pairIn(t *testing.T, dir string) tls.Certificate {
	t.Helper()
	files := must[[]os.DirEntry](t)(os.ReadDir(dir))
	for _, cert := range files {
		for _, key := range files {
			if cert.IsDir() || key.IsDir() {
				continue
			}
			pair, err := tls.LoadX509KeyPair(filepath.Join(dir, cert.Name()), filepath.Join(dir, key.Name()))
			if err != nil {
				continue
			}
			if leaf, err := x509.ParseCertificate(pair.Certificate[0]); err == nil && !leaf.IsCA {
				return pair
			}
		}
	}
	t.Fatalf("no pair in %s", dir)
	return tls.Certificate{}
}
