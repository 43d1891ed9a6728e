package plugin

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func question(workers ...string) Question {
	q := Question{V: Version, Cluster: "edge", DeadlineMs: 1000,
		Service: &Service{Name: "a.web", Instances: []string{"a.web.0", "a.web.1"}, Demand: Amounts{"cpu": 100}}}
	for _, w := range workers {
		q.Candidates = append(q.Candidates, Candidate{ID: w, Free: Amounts{"cpu": 1000}})
	}
	return q
}

// wants is an error of a class with a text in it, nil where class is "".
func wants(t *testing.T, what string, err error, class, text string) {
	t.Helper()
	var e *Error
	switch {
	case class == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case class != "" && (!errors.As(err, &e) || e.Class != class || !strings.Contains(e.Text, text)):
		t.Errorf("%s: %v, want %s with %q", what, err, class, text)
	}
}

// What is taken of an answer, and what is not.
func TestAnswers(t *testing.T) {
	many := `{"ranking":[` + strings.Repeat(`{"id":"w1","score":1},`, 60_000) + `{"id":"w1","score":1}]}`
	for _, tc := range []struct{ name, answer, class, text string }{
		{"a ranking", `{"ranking":[{"id":"w1","score":-1.5},{"id":"w2","score":0}]}`, "", ""},
		{"with more than was asked", `{"v":1,"ranking":[{"id":"w1","score":1,"because":"x"}],"model":"y"}`, "", ""},
		{"rejects all", `{"rejected":{"w1":"no","w2":"no"}}`, "", ""},
		{"places", `{"placements":{"a.web.0":"w1"},"ranking":[{"id":"w1","score":1}]}`, "", ""},
		{"a reason alone", `{"reason":"night"}`, "", ""},
		{"as a joint one", `{"services":{"a.web":{"ranking":[{"id":"w1","score":1}]}}}`, "", ""},
		{"nothing", ``, Invalid, "not what the contract says"},
		{"rubbish", `<html>`, Invalid, "not what the contract says"},
		{"null", `null`, Invalid, "neither ranks nor rejects"},
		{"empty", `{}`, Invalid, "neither ranks nor rejects"},
		{"a list", `[]`, Invalid, "not what the contract says"},
		{"another version", `{"v":2,"ranking":[{"id":"w1","score":1}]}`, Invalid, "of version 2"},
		{"unknown id", `{"ranking":[{"id":"w3","score":1}]}`, Invalid, `ranks "w3", which is no candidate`},
		{"unknown id rejected", `{"rejected":{"w3":""}}`, Invalid, `rejects "w3"`},
		{"twice", `{"ranking":[{"id":"w1","score":1},{"id":"w1","score":2}]}`, Invalid, `ranks "w1" twice`},
		{"both", `{"ranking":[{"id":"w1","score":1}],"rejected":{"w1":"no"}}`, Invalid, `ranks and rejects "w1"`},
		{"no score", `{"ranking":[{"id":"w1"}]}`, Invalid, "is no number"},
		{"null score", `{"ranking":[{"id":"w1","score":null}]}`, Invalid, "is no number"},
		{"NaN", `{"ranking":[{"id":"w1","score":NaN}]}`, Invalid, "not what the contract says"},
		{"infinite", `{"ranking":[{"id":"w1","score":1e999}]}`, Invalid, "not what the contract says"},
		{"text as score", `{"ranking":[{"id":"w1","score":"1"}]}`, Invalid, "not what the contract says"},
		{"places a stranger", `{"placements":{"b.db.0":"w1"}}`, Invalid,
			`places "b.db.0", which it was not asked about`},
		{"places nowhere", `{"placements":{"a.web.0":"w9"}}`, Invalid, `on "w9", which is no candidate`},
		{"places where it rejects", `{"placements":{"a.web.0":"w1"},"rejected":{"w1":"no"}}`, Invalid,
			"which it rejects"},
		{"two documents", `{"ranking":[{"id":"w1","score":1}]}{}`, Invalid, "not what the contract says"},
		{"larger than may be", many, TooLarge, "more than"},
	} {
		_, err := Decode(question("w1", "w2"), []byte(tc.answer))
		wants(t, tc.name, err, tc.class, tc.text)
	}
	nan := math.NaN()
	_, err := Check(question("w1"), Answer{Verdict: Verdict{Ranking: []Ranked{{ID: "w1", Score: &nan}}}})
	wants(t, "NaN past JSON", err, Invalid, "is no number")
}

// A joint answer is held against what each service was asked about.
func TestJointAnswers(t *testing.T) {
	q := question("w1", "w2", "w3")
	q.Service = nil
	q.Services = []Service{
		{Name: "a.web", Instances: []string{"a.web.0"}, Candidates: []string{"w1", "w2"}},
		{Name: "a.db", Instances: []string{"a.db.0"}, Candidates: []string{"w3"}},
	}
	for _, tc := range []struct{ name, answer, class, text string }{
		{"both", `{"services":{"a.web":{"placements":{"a.web.0":"w1"}},"a.db":{"reason":"full"}}}`, "", ""},
		{"one", `{"services":{"a.web":{"placements":{"a.web.0":"w1"}}}}`, "", ""},
		{"none", `{"services":{}}`, Invalid, "none of the 2"},
		{"null", `{"services":{"a.web":null}}`, Invalid, "none of the 2"},
		{"as for one", `{"ranking":[{"id":"w1","score":1}]}`, Invalid, "none of the 2"},
		{"another's worker", `{"services":{"a.web":{"placements":{"a.web.0":"w3"}}}}`, Invalid,
			`on "w3", which is no candidate`},
		{"another's instance", `{"services":{"a.web":{"placements":{"a.db.0":"w1"}}}}`, Invalid, "was not asked about"},
		{"another service", `{"services":{"a.x":{"reason":"y"}}}`, Invalid, `service "a.x"`},
	} {
		_, err := Decode(q, []byte(tc.answer))
		wants(t, tc.name, err, tc.class, tc.text)
	}
}

// Words of a plugin are shown to people: short, and nothing but words.
func TestWordsAreCleaned(t *testing.T) {
	got, err := Decode(question("w1"), []byte(`{"rejected":{"w1":"a\u001b[31m\nb`+strings.Repeat("é", 1000)+`"}}`))
	if err != nil {
		t.Fatal(err)
	}
	why := got["a.web"].Rejected["w1"]
	if !strings.HasPrefix(why, "a[31m bé") || len(why) > maxReason+len("…") || strings.ToValidUTF8(why, "") != why {
		t.Errorf("%q", why)
	}
}

// A question that is too large loses candidates from its end, and says how many.
func TestQuestionsAreBounded(t *testing.T) {
	q := question()
	for n := range MaxCandidates {
		q.Candidates = append(q.Candidates,
			Candidate{ID: fmt.Sprintf("w%d", n), Labels: map[string]string{"x": strings.Repeat("y", 1000)}})
	}
	b, err := Encode(q, 1<<18)
	if err != nil || len(b) > 1<<18 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	var sent Question
	if err := json.Unmarshal(b, &sent); err != nil || sent.Omitted != MaxCandidates-len(sent.Candidates) ||
		sent.Candidates[0].ID != "w0" || len(sent.Candidates) < 100 {
		t.Errorf("%d candidates, %d omitted, %v", len(sent.Candidates), sent.Omitted, err)
	}
	q.Service, q.Services = nil, []Service{{Name: "a.web"}}
	_, err = Encode(q, 1<<18)
	wants(t, "a joint one", err, TooLarge, "at most 262144")
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func open(t *testing.T, c Config) *HTTP {
	t.Helper()
	h, err := NewHTTP(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

const fine = `{"ranking":[{"id":"w1","score":1}]}`

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The token goes with each question, as its file says at that moment.
func TestToken(t *testing.T) {
	var heard []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		heard = append(heard, r.Header.Get("Authorization"))
		var q Question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Method != http.MethodPost ||
			q.Service.Name != "a.web" || r.URL.Path != "/v1" {
			t.Errorf("%s %s: %+v, %v", r.Method, r.URL, q, err)
		}
		_, _ = io.WriteString(w, fine)
	})
	file := write(t, "token", "first\n")
	h := open(t, Config{Name: "x", URL: s.URL + "/v1", TokenFile: file})
	for _, next := range []string{"second", "two words"} {
		if v, err := h.Ask(t.Context(), question("w1")); err != nil || *v["a.web"].Ranking[0].Score != 1 {
			t.Fatalf("%v, %v", v, err)
		}
		if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := h.Ask(t.Context(), question("w1"))
	wants(t, "a file that holds no token", err, Unreachable, "token")
	if strings.Contains(err.Error(), "two words") {
		t.Error("the token is in the error")
	}
	if fmt.Sprint(heard) != "[Bearer first Bearer second]" {
		t.Errorf("heard %q", heard)
	}
	if _, err := NewHTTP(Config{Name: "x", URL: s.URL, TokenFile: file + ".not"}); err == nil {
		t.Error("a plugin whose token is missing is registered")
	}
}

// What a plugin can do wrong over HTTP, each with its class.
func TestFailures(t *testing.T) {
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirection was followed") })
	for _, tc := range []struct {
		name, class, text string
		h                 http.HandlerFunc
	}{
		{"an error", Refused, "status 500",
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }},
		{"a redirection", Refused, "status 307", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}},
		{"10 MB", TooLarge, "more than", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"reason":"` + strings.Repeat("x", 10<<20) + `"}`)) // it is cut off
		}},
		{"10 MB, packed", Invalid, "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip") // nobody unpacks it
			_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0})
		}},
		{"half an answer", Unreachable, "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, fine)
		}},
		{"a broken connection", Unreachable, "",
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"rubbish", Invalid, "", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0, 255, 10}) }},
	} {
		s := serve(t, tc.h)
		_, err := open(t, Config{URL: s.URL}).Ask(t.Context(), question("w1"))
		wants(t, tc.name, err, tc.class, tc.text)
	}
	// A port nobody is given by chance: one that was closed just now may be another test's.
	_, err := open(t, Config{URL: "http://127.0.0.1:1"}).Ask(t.Context(), question("w1"))
	wants(t, "nobody listens", err, Unreachable, "refused")
	if strings.Contains(err.Error(), "http://") {
		t.Errorf("the URL is in %v", err)
	}
}

// A question ends with its context, whether nothing comes or something slowly.
func TestLate(t *testing.T) {
	for name, begin := range map[string]string{"nothing": "", "half of it": `{"ranking":`} {
		release := make(chan struct{})
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
			if begin != "" {
				_, _ = io.WriteString(w, begin)
				w.(http.Flusher).Flush()
			}
			<-release
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := open(t, Config{URL: s.URL}).Ask(ctx, question("w1"))
		cancel()
		close(release)
		wants(t, name, err, Late, "in time")
	}
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "vp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l,
		Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = io.WriteString(w, fine)
		})}}
	s.Start()
	t.Cleanup(s.Close)
	if v, err := open(t, Config{URL: "unix:" + filepath.Join(dir, "s")}).Ask(t.Context(), question("w1")); err != nil ||
		len(v["a.web"].Ranking) != 1 {
		t.Errorf("%v, %v", v, err)
	}
}

// Over TLS a plugin is who its authority says, and nobody else is told the token.
func TestTLS(t *testing.T) {
	var heard int
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		heard++
		_,
			_ = io.WriteString(w, fine)
	}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	_, err := open(t, Config{URL: s.URL, TokenFile: write(t, "token", "secret")}).Ask(t.Context(), question("w1"))
	wants(t, "an unknown authority", err, Unreachable, "certificate")
	if heard != 0 {
		t.Error("a stranger was asked")
	}
	ca := write(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	if _, err := open(t, Config{URL: s.URL, CAFile: ca}).Ask(t.Context(), question("w1")); err != nil {
		t.Error(err)
	}
	if _, err := NewHTTP(Config{Name: "x", URL: s.URL, CAFile: write(t, "ca.pem", "nothing")}); err == nil ||
		!strings.Contains(err.Error(), "no certificate") {
		t.Errorf("authorities without any: %v", err)
	}
}

func TestURLs(t *testing.T) {
	for _, good := range []string{"https://ilp.example/v1", "https://10.0.0.1:9000", "http://127.0.0.1:9000/x?y=z",
		"http://[::1]:9000", "http://localhost:9000", "unix:/run/ilp.sock"} {
		if _, err := CheckURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, why := range map[string]string{
		"http://10.0.0.1:9000": "write https", "http://ilp.example": "write https", "https://": "must be",
		"ftp://x": "must be", "unix:run": "must be", "": "must be",
		"https://user:secret@x": "--plugin-token-file", "127.0.0.1:9000": "", "https://x/#y": "means nothing",
		"unix://host/x": "must be",
	} {
		if _, err := CheckURL(bad); err == nil || !strings.Contains(err.Error(), why) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for address, ok := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "10.0.0.1:1": false,
		"nonsense": false} {
		if err := onLoopback("tcp", address, nil); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Whatever comes in: no panic, and nothing gets through that was not asked about.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{fine, `{}`,
		`{"services":{"a.web":{"placements":{"a.web.0":"w1"},"rejected":{"w2":"no"}}}}`,
		`{"ranking":[{"id":"w3","score":1}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Decode(question("w1", "w2"), data)
		if err != nil {
			return
		}
		v := got["a.web"]
		for _, r := range v.Ranking {
			if (r.ID != "w1" && r.ID != "w2") || math.IsNaN(*r.Score) || math.IsInf(*r.Score, 0) {
				t.Errorf("ranked %v", r)
			}
		}
		for id, w := range v.Placements {
			if !strings.HasPrefix(id, "a.web.") || (w != "w1" && w != "w2") {
				t.Errorf("placed %s on %s", id, w)
			}
		}
		if len(v.Rejected) > 2 || len(v.Reason) > maxReason+len("…") {
			t.Errorf("%+v", v)
		}
	})
}

// A plugin on the bus refuses in words; they are fit to be shown.
func TestAnAnswerThatRefuses(t *testing.T) {
	t.Parallel()
	q := Question{Service: &Service{Name: "a.web", Instances: []string{"a.web.0"}}, Candidates: []Candidate{{ID: "w1"}}}
	_, err := Decode(q, []byte(`{"error":"too\nbusy","ranking":[{"id":"w1","score":1}]}`))
	var e *Error
	if !errors.As(err, &e) || e.Class != Refused || e.Text != "it refused: too busy" {
		t.Errorf("%v", err)
	}
	if _, err := CheckURL(OnBus); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"nats://host", "nats:x", "NATS:", "nats"} {
		if _, err := CheckURL(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
