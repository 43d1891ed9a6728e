package resttest

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/verge-edge/verge/client"
)

// Place names one thing of each kind. The names must be in no text of Verge.
type Place struct{ App, Namespace, Cluster, Worker string }

// Fill gives the parameters of a request for what is at the place; see Requests.
func (p Place) Fill(name string) string {
	switch name {
	case "app", "application":
		return p.App
	case "namespace", "ns":
		return p.Namespace
	case "cluster":
		return p.Cluster
	case "worker":
		return p.Worker
	case "id", "instance":
		return p.App + ".web.0"
	case "session":
		return "some." + p.Cluster + "." + p.Worker + "." + p.App + ".web.0"
	case "key", "run":
		return "0123456789"
	case "change":
		return "pause"
	case "revision":
		return "1"
	case "service":
		return "web"
	case "name", "secret", "user", "token", "plugin", "hook":
		return "some"
	case "body":
		return "application: " + p.App + "\nnamespace: " + p.Namespace +
			"\nservices:\n  web:\n    command: [\"true\"]\n"
	}
	return ""
}

// Bearers is a client of a server that shows no certificate.
func Bearers(t testing.TB, e client.Context) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(e.CA))
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: e.ServerName}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// OpenAPI is the description of a server's interface.
func OpenAPI(t testing.TB, e client.Context) []byte {
	t.Helper()
	resp, err := Bearers(t, e).Get(e.Server + "/openapi.json")
	must(t, err)
	data, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	must(t, err)
	return data
}

// passing are the parts of an answer that change by themselves.
var passing = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"|"age_seconds":[-0-9.e]+`)

// OutsidersLearnNothing asks every operation of a server with tokens of those who
// have no right at a place where something is, and compares with a place where
// nothing is: it wants the same answers, and neither the names of the place nor
// more words in any that is no refusal.
func OutsidersLearnNothing(t *testing.T, e client.Context, tokens []string, is, isNot Place, more ...string) {
	t.Helper()
	client, doc := Bearers(t, e), OpenAPI(t, e)
	there, absent := Requests(t, doc, is.Fill), Requests(t, doc, isNot.Fill)
	same := strings.NewReplacer(is.App, isNot.App, is.Namespace, isNot.Namespace, is.Cluster, isNot.Cluster, is.Worker,
		isNot.Worker)
	if len(there) < 15 {
		t.Fatalf("only %d operations", len(there))
	}
	for _, who := range tokens {
		for i, r := range there {
			if r.Open() {
				continue
			}
			if r.Needs == "" || r.Needs == "nobody may" {
				t.Fatalf("%s %s does not say what it needs", r.Method, r.Path)
			}
			status, body := r.Do(t, client, e.Server, who)
			wantStatus, want := absent[i].Do(t, client, e.Server, who)
			body, want = passing.ReplaceAllString(body, ""), passing.ReplaceAllString(want, "")
			if status != wantStatus || same.Replace(body) != want {
				t.Errorf("%s, %s:\n%d %swhere there is nothing:\n%d %s", who, r.Operation, status, body, wantStatus,
					want)
			}
			if status >= 500 || status == http.StatusTooManyRequests || (r.Changes() && status < 400) {
				t.Errorf("%s, %s: %d %s", who, r.Operation, status, body)
			}
			if status >= 300 {
				continue // a refusal may repeat what was asked for
			}
			for _, word := range append([]string{is.App, is.Namespace, is.Cluster, is.Worker}, more...) {
				if strings.Contains(body, word) {
					t.Errorf("%s, %s: %q is in %s", who, r.Operation, word, body)
				}
			}
		}
	}
}
