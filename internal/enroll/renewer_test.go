package enroll

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const year = 365 * 24 * time.Hour

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Whether and how to ask is a function of what is known, the time and the clock.
func TestWhenToRenew(t *testing.T) {
	held := Held{Made: begin, RenewAt: begin.Add(year / 2), Expires: begin.Add(year)}
	mono := time.Now()
	old := mono.Add(-time.Hour)
	for name, c := range map[string]struct {
		s     renewing
		clock time.Time
		want  way
	}{
		"new":                           {renewing{}, begin, notNow},
		"before half of its life":       {renewing{}, begin.Add(year/2 - time.Second), notNow},
		"at half of its life":           {renewing{}, begin.Add(year / 2), byLink},
		"the tier above asks for it":    {renewing{wanted: true}, begin, byLink},
		"link lost":                     {renewing{down: mono.Add(-time.Second)}, begin.Add(year / 2), notNow},
		"link lost for long":            {renewing{down: old}, begin, byAPI},
		"link refused":                  {renewing{down: mono, refused: true}, begin, byAPI},
		"expired, and no link":          {renewing{down: mono}, begin.Add(year + time.Second), byAPI},
		"expired long ago":              {renewing{down: mono}, begin.Add(3 * year), byAPI},
		"expired, but the link is up":   {renewing{}, begin.Add(year + time.Second), byLink},
		"of an authority that is ahead": {renewing{}, begin.Add(-year), byLink},
		"failed just now": {renewing{wanted: true, failures: 1, tried: mono.Add(-time.Second)}, begin,
			notNow},
		"failed a while ago": {renewing{wanted: true, failures: 1, tried: mono.Add(-firstPause)}, begin,
			byLink},
		"failed often": {renewing{wanted: true, failures: 40,
			tried: mono.Add(-longestPause + time.Second)}, begin, notNow},
		"failed often, an hour ago": {renewing{wanted: true, failures: 40, tried: old}, begin, byLink},
		"refused for good": {renewing{down: old, refused: true, failures: 1, final: rpc.CodeRemoved,
			tried: mono.Add(-time.Minute)}, begin, notNow},
		"refused for good an hour ago": {renewing{down: old, refused: true, failures: 1, final: rpc.CodeRemoved,
			tried: old}, begin, byAPI},
	} {
		if got := c.s.next(mono, c.clock, held); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A node that exchanges with its tier lives on for years, asking twice a year.
func TestYearsOfRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, asked, told := time.Now(), 0, 0
		held := Held{Made: start, RenewAt: start.Add(year / 2), Expires: start.Add(year)}
		r := &Renewer{
			Clock: pki.NewClock(t.TempDir(), func() time.Time { return time.Now().Round(0) },
				func() time.Duration { return time.Since(start) }),
			Held: func() Held { return held },
			Link: func(context.Context, rpc.RenewRequest) (rpc.JoinReply, error) {
				if asked++; asked == 3 {
					return rpc.JoinReply{}, errors.New("lost") // once
				}
				return rpc.JoinReply{V: wire.Version, Chain: "another"}, nil
			},
			Take: func(rpc.JoinReply) error {
				now := time.Now()
				held = Held{Made: now, RenewAt: now.Add(year / 2), Expires: now.Add(year)}
				return nil
			},
			Refused: func(*wire.Problem) { told++ }, Log: slog.New(slog.DiscardHandler),
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		for range 10 * 365 * 4 {
			time.Sleep(6 * time.Hour)
			if now := time.Now(); now.After(held.Expires) || now.After(held.RenewAt.Add(13*time.Hour)) {
				t.Fatalf("not renewed at %s: %+v", now, held)
			}
			r.Exchanged(nil)
			synctest.Wait()
		}
		if asked < 20 || asked > 22 || told != 0 {
			t.Errorf("asked %d times in ten years, refused %d times", asked, told)
		}
	})
}

// One that is refused for good says so once, and does not hammer.
func TestAFinalRefusalIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, asked, told := time.Now(), 0, 0
		r := &Renewer{
			Clock: pki.NewClock(t.TempDir(), func() time.Time { return time.Now().Round(0) },
				func() time.Duration { return time.Since(start) }),
			Held: func() Held { return Held{Made: start, RenewAt: start, Expires: start.Add(100 * year)} },
			Link: func(context.Context, rpc.RenewRequest) (rpc.JoinReply, error) {
				asked++
				return rpc.JoinReply{}, wire.Problemf(403, rpc.CodeRevoked, "join again", "revoked", "")
			},
			TLS: &tls.Config{}, Take: func(rpc.JoinReply) error { return nil },
			Refused: func(p *wire.Problem) {
				if told++; p.Code != rpc.CodeRevoked {
					t.Errorf("%+v", p)
				}
			}, Log: slog.New(slog.DiscardHandler),
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		for range 24 * 360 { // a day, an exchange each 10 s
			r.Exchanged(nil)
			synctest.Wait()
			time.Sleep(10 * time.Second)
		}
		if told != 1 || asked > 25 {
			t.Errorf("told %d times, asked %d times in a day", told, asked)
		}
	})
}

func TestWhoMayRenew(t *testing.T) {
	key, other := []byte("key"), []byte("other")
	reg := Registered{What: "worker w1", Again: "so", KeyHash: pki.KeyHash(key), NatsKey: "U", Expires: begin}
	for name, c := range map[string]struct {
		key  []byte
		nats string
		now  time.Time
		code string
	}{
		"in time":               {key, "U", begin.Add(-year), ""},
		"expired":               {key, "U", begin.Add(24 * time.Hour), ""},
		"179 days after it":     {key, "U", begin.Add(pki.RenewGrace - time.Hour), ""},
		"181 days after it":     {key, "U", begin.Add(pki.RenewGrace + time.Hour), rpc.CodeTooLate},
		"another key":           {other, "U", begin, rpc.CodeUnknown},
		"another key for a bus": {key, "V", begin, rpc.CodeUnknown},
	} {
		err := reg.MayRenew(rpc.RenewRequest{PublicKey: c.key, NatsKey: c.nats}, c.now)
		var p *wire.Problem
		if c.code == "" && err != nil || c.code != "" &&
			(!errors.As(err, &p) || p.Code != c.code || p.Remedy == "" || Final(err) == nil) {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
	}
	reg.Renewed = time.Now()
	if err := reg.MayRenew(rpc.RenewRequest{PublicKey: key, NatsKey: "U"}, begin); err == nil || Final(err) != nil {
		t.Errorf("twice at once: %v", err)
	}
}

// A signature is good for one request, at one server, soon.
func TestProofsOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		public, err := pki.EnsureKey(dir)
		if err != nil {
			t.Fatal(err)
		}
		enroller := NewEnroller(pki.ClusterName("edge"))
		sign := func(e *Enroller, server string, change func(*rpc.RenewRequest)) rpc.RenewRequest {
			r := rpc.RenewRequest{V: wire.Version, Name: "w1", PublicKey: public, NatsKey: "U",
				Challenge: e.Challenge().Challenge}
			if r.Signature, err = pki.Prove(dir, ProofText(server, r)); err != nil {
				t.Fatal(err)
			}
			if change != nil {
				change(&r)
			}
			return r
		}
		edge := pki.ClusterName("edge")
		good := sign(enroller, edge, nil)
		if err := enroller.Check(good); err != nil {
			t.Errorf("a good one: %v", err)
		}
		thief := t.TempDir()
		stranger, err := pki.EnsureKey(thief)
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]rpc.RenewRequest{
			"no signature":        sign(enroller, edge, func(r *rpc.RenewRequest) { r.Signature = nil }),
			"another name":        sign(enroller, edge, func(r *rpc.RenewRequest) { r.Name = "w2" }),
			"another bus key":     sign(enroller, edge, func(r *rpc.RenewRequest) { r.NatsKey = "V" }),
			"another key":         sign(enroller, edge, func(r *rpc.RenewRequest) { r.PublicKey = stranger }),
			"rubbish as key":      sign(enroller, edge, func(r *rpc.RenewRequest) { r.PublicKey = []byte("x") }),
			"of another server":   sign(enroller, pki.ClusterName("fog"), nil),
			"of another enroller": sign(NewEnroller(edge), edge, nil),
			"no challenge":        sign(enroller, edge, func(r *rpc.RenewRequest) { r.Challenge = "" }),
			"wire version":        sign(enroller, edge, func(r *rpc.RenewRequest) { r.V = 9 }),
		} {
			var p *wire.Problem
			if err := enroller.Check(r); !errors.As(err, &p) || p.Remedy == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
		time.Sleep(challengeLife + time.Second)
		if err := enroller.Check(good); err == nil {
			t.Error("an old one was accepted")
		}
	})
}

func TestAddressesOfTheTierAbove(t *testing.T) {
	old := rpc.JoinReply{Link: []string{"10.0.0.1:8472"}}
	if got := APIAddrs(old, old.Link, "8473"); len(got) != 1 || got[0] != "10.0.0.1:8473" {
		t.Errorf("guessed %v", got)
	}
	old.API = []string{"10.0.0.1:9000"}
	if got := APIAddrs(old, []string{"[2001:db8::1]:8472"}, "8473"); len(got) != 2 || got[1] != "[2001:db8::1]:9000" {
		t.Errorf("moved: %v", got)
	}
	now := Moved(old, rpc.JoinReply{Link: []string{"10.0.0.2:8472"}, API: []string{"10.0.0.1:9000"}})
	if len(now.Link) != 2 || now.Link[0] != "10.0.0.2:8472" || len(now.API) != 1 {
		t.Errorf("after a renewal: %+v", now)
	}
}

func TestContextFilesAreRenewed(t *testing.T) {
	now := begin
	ca, err := pki.OpenAuthority(t.TempDir(), now)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/context.yaml"
	ensure := func() client.Context {
		t.Helper()
		err := EnsureContext(path, "https://127.0.0.1:1", ca.PEM(), now, func() (client.Context, error) {
			chain, key, err := ca.NewAdmin("admin", now)
			return client.Context{Name: "root", CA: ca.PEM(), Cert: chain, Key: key, ServerName: pki.RootName}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		e, err := client.ReadContext(path)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := ensure()
	now = now.Add(year/2 - time.Hour)
	if ensure().Cert != first.Cert {
		t.Error("renewed before half of its life")
	}
	now = now.Add(2 * time.Hour)
	second := ensure()
	if second.Cert == first.Cert {
		t.Error("not renewed at half of its life")
	}
	if err := ca.Rotate(now); err != nil {
		t.Fatal(err)
	}
	if third := ensure(); third.CA == second.CA || third.Cert == second.Cert {
		t.Error("it does not follow a rotation")
	}
	// Somebody's own file, with a token, stays.
	mine := client.Context{Name: "mine", Server: "https://127.0.0.1:1", Token: "x"}
	if err := client.WriteContext(path, mine); err != nil {
		t.Fatal(err)
	}
	if got := ensure(); got != mine {
		t.Errorf("replaced by %v", got)
	}
}

// A node whose link is away, with a certificate that is not due, asks whether the
// fault is its own: it keeps what it has if the tier above says so, and asks less
// and less often.
func TestDoubtKeepsTheCertificate(t *testing.T) {
	expires := begin.Add(year)
	held := Held{Made: begin, RenewAt: begin.Add(year / 2), Expires: expires, ID: HeldID(expires, "ca")}
	reg := Registered{Expires: expires}
	for name, c := range map[string]struct {
		holds string
		now   time.Time
		vouch string
		want  bool
	}{
		"the same":                  {held.ID, begin, "ca", true},
		"it asks for another":       {"", begin, "ca", false},
		"another was given since":   {HeldID(expires.Add(-time.Hour), "ca"), begin, "ca", false},
		"others vouch for it now":   {held.ID, begin, "another ca", false},
		"it is due, it may not see": {held.ID, begin.Add(year/2 + time.Hour), "ca", false},
		"rubbish":                   {"rubbish", begin, "ca", false},
	} {
		if got := reg.Keeps(rpc.RenewRequest{Holds: c.holds}, c.now, c.vouch); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}

	var asked []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := any(rpc.Challenge{Challenge: "c"})
		if r.Method == http.MethodPost {
			var req rpc.RenewRequest
			if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
				t.Error(err)
			}
			asked = append(asked, req.Holds)
			reply = rpc.JoinReply{V: wire.Version, BusJWT: "new"}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply) // seen by the client
	}))
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	var taken []rpc.JoinReply
	r := &Renewer{
		Clock: pki.NewClock(t.TempDir(), func() time.Time { return begin }, func() time.Duration { return 0 }),
		Held:  func() Held { return held }, Request: rpc.RenewRequest{V: wire.Version},
		Prove: func(string) ([]byte, error) { return nil, nil },
		API:   func() []string { return []string{server.Listener.Addr().String()} },
		TLS:   &tls.Config{RootCAs: pool, ServerName: "example.com"},
		Take:  func(j rpc.JoinReply) error { taken = append(taken, j); return nil },
		Log:   slog.New(slog.DiscardHandler),
	}
	r.down = time.Now().Add(-time.Hour)
	kept, err := r.try(t.Context(), byAPI, held.ID)
	if err != nil || !kept || len(taken) != 1 || taken[0].BusJWT != "new" || len(asked) != 1 || asked[0] != held.ID {
		t.Fatalf("kept %v, %v; taken %+v, asked with %q", kept, err, taken, asked)
	}
	for n, pause := range []time.Duration{firstPause, 2 * firstPause, 4 * firstPause} {
		r.note(kept, err)
		if got := r.next(r.tried.Add(pause-time.Second), begin, held); got != notNow {
			t.Errorf("after attempt %d it asks at once: %v", n+1, got)
		}
		if got := r.next(r.tried.Add(pause), begin, held); got != byAPI {
			t.Errorf("after attempt %d it does not ask again: %v", n+1, got)
		}
	}
	// Who needs a certificate and gets none has failed.
	if _, err := r.try(t.Context(), byAPI, ""); err == nil || len(taken) != 1 {
		t.Errorf("an answer without a certificate: %v, taken %d", err, len(taken))
	}
}
