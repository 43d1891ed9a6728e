package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Source is where the certificate of a host is from.
type Source string

// Sources of certificates.
const (
	FromSecret Source = "secret"
	ACME       Source = "acme"
	SelfSigned Source = "self-signed"
)

// Want is a host that needs a certificate.
type Want struct {
	// Host in lower case; "*.example.org" is every name with one label more.
	Host   string
	Source Source
	// Namespace and Secret of a FromSecret one.
	Namespace, Secret string
}

// Secrets has the values of secrets.
type Secrets interface {
	// Version of a secret, another for another value; "" where it is not here.
	Version(namespace, name string) string
	// Open returns the value. The error is for people and has nothing of it.
	Open(namespace, name string) ([]byte, error)
}

// Authority is an ACME server.
type Authority struct {
	// Directory is its URL; "" is no authority.
	Directory string
	// Email that it may write to; "" is none.
	Email string
	// Roots that its own certificate must chain to, nil is those of the system.
	Roots *x509.CertPool
	// HTTPPort and TLSPort are where the gateway itself listens, 0 where it does not:
	// there the authority's challenges arrive.
	ListenHost        string
	HTTPPort, TLSPort int
}

// Options of a Store.
type Options struct {
	// Dir keeps accounts, certificates and keys; it is made when something is to be
	// kept.
	Dir     string
	Secrets Secrets // nil: there are none
	ACME    Authority
	// Above is where the gateways of a cluster share what they have of the ACME server;
	// nil: this one has an account of its own.
	Above Above
	Log   *slog.Logger
	// Changed is called when Reports may say something else, from any goroutine. It
	// must not block or call the Store; nil for nobody.
	Changed func()
	// now is another clock in tests.
	now func() time.Time
}

// Report is how it stands with the certificate of a host.
type Report struct {
	Host   string
	Source Source
	// NotAfter is when the certificate expires; zero where there is none yet.
	NotAfter time.Time
	// Problem in words; "" if all is well.
	Problem string
	// Failed: there is no certificate, or none that could be renewed or used.
	Failed bool
}

const soon = wire.ExpiresSoon

// openAgain is when a secret that could not be opened is tried again: its worker may have
// been out of descriptors.
const openAgain = 30 * time.Second

// Store has the certificates of one gateway. It is safe for concurrent use.
type Store struct {
	opts Options

	mu     sync.Mutex // guards below
	hosts  map[string]*entry
	own    *issuer // of self-signed certificates; nil before the first
	acme   *account
	acmes  []string // hosts of it
	timer  *time.Timer
	closed bool
}

// entry is what there is for one host.
type entry struct {
	want    Want
	version string           // of the secret, as it was taken over
	again   bool             // that which there is could not be opened, and is tried again
	cert    *tls.Certificate // FromSecret, SelfSigned; nil where there is none
	// problem of getting one.
	problem string
	// notAfter of one that is the account's.
	notAfter time.Time
}

// New makes a Store for no host.
func New(o Options) *Store {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.now == nil {
		o.now = time.Now
	}
	return &Store{opts: o, hosts: map[string]*entry{}}
}

// Set replaces the hosts, and looks for new values of their secrets.
func (s *Store) Set(wants []Want) {
	s.mu.Lock()
	old := s.setLocked(wants)
	s.mu.Unlock()
	old.stop() // what it is about to tell takes the mutex
}

// setLocked returns an account that is no longer needed.
func (s *Store) setLocked(wants []Want) (old *account) {
	if s.closed {
		return nil
	}
	next := make(map[string]*entry, len(wants))
	var acmes []string
	for _, w := range wants {
		e := s.hosts[w.Host]
		if e == nil || e.want != w {
			e = &entry{want: w}
			if w.Source == ACME {
				e.problem = "it has no certificate yet: it is being asked for"
			}
		}
		next[w.Host] = e
		switch w.Source {
		case FromSecret:
			s.takeLocked(e)
		case ACME:
			acmes = append(acmes, w.Host)
		case SelfSigned: // made when somebody asks
		}
	}
	s.hosts = next
	slices.Sort(acmes)
	if !slices.Equal(acmes, s.acmes) {
		s.acmes = acmes
		old = s.manageLocked()
	}
	s.watchLocked()
	return old
}

// Refresh looks for new values of the secrets.
func (s *Store) Refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for _, e := range s.hosts {
		if e.want.Source == FromSecret {
			s.takeLocked(e)
		}
	}
	s.watchLocked()
	s.opts.Changed()
}

// takeLocked takes over the value of a secret where it is a new one. One that cannot
// be used leaves the one before in place.
func (s *Store) takeLocked(e *entry) {
	version := ""
	if s.opts.Secrets != nil {
		version = s.opts.Secrets.Version(e.want.Namespace, e.want.Secret)
	}
	if version == "" {
		if e.problem = fmt.Sprintf("secret %s of namespace %s is not here", e.want.Secret,
			e.want.Namespace); e.cert != nil {
			e.problem += ": the certificate that it had is shown still"
		}
		e.version, e.again = "", false
		return
	}
	if version == e.version {
		e.again = false
		return
	}
	value, err := s.opts.Secrets.Open(e.want.Namespace, e.want.Secret)
	if e.again = err != nil; err != nil {
		e.problem = err.Error()
		return
	}
	e.version = version
	cert, err := Parse(value)
	if err != nil {
		e.problem = fmt.Sprintf("secret %s of namespace %s: %v", e.want.Secret, e.want.Namespace, err)
		return
	}
	e.cert, e.problem = cert, ""
	// That of a name may be published for a wildcard, and is good for one of them.
	probe := strings.Replace(e.want.Host, "*", "any", 1)
	if err := cert.Leaf.VerifyHostname(probe); err != nil {
		e.problem = fmt.Sprintf("the certificate in secret %s of namespace %s is for %s, not for %s", e.want.Secret,
			e.want.Namespace, names(cert.Leaf), e.want.Host)
	}
}

// names are what a certificate is for, as far as a sentence can hold.
func names(c *x509.Certificate) string {
	const most = 5
	if len(c.DNSNames) == 0 {
		return "no host name"
	}
	list := strings.Join(c.DNSNames[:min(most, len(c.DNSNames))], ", ")
	if len(c.DNSNames) > most {
		list += " …"
	}
	return list
}

// Get is tls.Config.GetCertificate. It returns nil for a host without a certificate, which the
// client sees as an unknown name.
func (s *Store) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	s.mu.Lock()
	e, a := s.ofLocked(name), s.acme
	if e == nil || e.want.Source != ACME || a == nil {
		defer s.mu.Unlock()
		if e == nil {
			return nil, nil //nolint:nilnil // "there is none" as crypto/tls understands it
		}
		if e.want.Source == SelfSigned {
			return s.makeLocked(e)
		}
		return e.cert, nil
	}
	s.mu.Unlock()
	return a.get(hello)
}

// ofLocked is the entry for a name.
func (s *Store) ofLocked(name string) *entry {
	if e := s.hosts[name]; e != nil {
		return e
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		return s.hosts["*."+parent]
	}
	return nil
}

// makeLocked returns the self-signed certificate of a host, which it makes where
// there is none or it expires soon.
func (s *Store) makeLocked(e *entry) (*tls.Certificate, error) {
	now := s.opts.now()
	if e.cert != nil && now.Add(soon).Before(e.cert.Leaf.NotAfter) {
		return e.cert, nil
	}
	if s.own == nil || !now.Add(soon).Before(s.own.cert.NotAfter) {
		own, err := openIssuer(s.opts.Dir, now)
		if err != nil {
			e.problem = err.Error()
			return nil, errors.New("no certificate can be made now")
		}
		s.own = own
	}
	cert, err := s.own.issue(e.want.Host, now)
	if err != nil {
		e.problem = err.Error()
		return nil, errors.New("no certificate can be made now")
	}
	e.cert, e.problem = cert, ""
	return cert, nil
}

// ServeChallenge answers an ACME server that asks over HTTP; false where the request
// is none of its.
func (s *Store) ServeChallenge(w http.ResponseWriter, req *http.Request) bool {
	if !strings.HasPrefix(req.URL.Path, "/.well-known/acme-challenge/") {
		return false
	}
	host, _, err := net.SplitHostPort(req.Host)
	if err != nil {
		host = req.Host
	}
	s.mu.Lock()
	e, a := s.hosts[strings.ToLower(host)], s.acme
	s.mu.Unlock()
	// Of no other host anything is looked for: anybody can ask.
	return e != nil && e.want.Source == ACME && a.challenge(w, req)
}

// Listen says at which addresses the gateway listens, "" where it does not. Nothing
// is asked of an ACME server before.
func (s *Store) Listen(plain, withTLS string) {
	s.mu.Lock()
	next := s.opts.ACME.Listens(plain, withTLS)
	var old *account
	if !s.closed && next != s.opts.ACME {
		s.opts.ACME = next
		old, s.acme = s.acme, nil
		s.manageLocked()
	}
	s.mu.Unlock()
	old.stop()
}

// manageLocked begins or ends the work with the ACME server, and returns an account that is no
// longer needed.
func (s *Store) manageLocked() (old *account) {
	if len(s.acmes) == 0 || s.opts.ACME.Directory == "" || s.opts.ACME.TLSPort == 0 {
		old, s.acme = s.acme, nil
		return old
	}
	if s.acme == nil {
		s.acme = newAccount(s.opts, s.came)
	}
	s.acme.manage(s.acmes)
	return nil
}

// came hears what became of the certificate of a host.
func (s *Store) came(host string, notAfter time.Time, err error) {
	s.mu.Lock()
	if e := s.hosts[host]; e != nil && e.want.Source == ACME {
		if err != nil {
			e.problem = fmt.Sprintf("no certificate by ACME: %.500v (it is tried again)", err)
		} else {
			e.notAfter, e.problem = notAfter, ""
		}
	}
	s.watchLocked()
	s.mu.Unlock()
	s.opts.Changed()
}

// Reports are the certificates, those first that expire first.
func (s *Store) Reports() []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.now()
	out := make([]Report, 0, len(s.hosts))
	for _, host := range slices.Sorted(maps.Keys(s.hosts)) {
		out = append(out, s.reportLocked(s.hosts[host], now))
	}
	slices.SortStableFunc(out, func(a, b Report) int { return a.NotAfter.Compare(b.NotAfter) })
	return out
}

func (s *Store) reportLocked(e *entry, now time.Time) Report {
	r := Report{Host: e.want.Host, Source: e.want.Source, NotAfter: e.expires(), Problem: e.problem}
	switch {
	case e.want.Source == ACME && s.opts.ACME.Directory == "":
		r.Problem = "this gateway asks no ACME server: start it with --acme-agree"
	case e.want.Source == ACME && s.opts.ACME.TLSPort == 0:
		r.Problem = "this gateway has no port for TLS: start it with --gateway-tls :8443"
	case r.NotAfter.IsZero() || e.want.Source == SelfSigned:
	case !now.Before(r.NotAfter):
		r.Problem = both("its certificate has expired at "+r.NotAfter.UTC().Format(time.RFC3339)+
			" and is shown all the same", r.Problem)
	case !now.Add(soon).Before(r.NotAfter):
		r.Problem = both("its certificate expires at "+r.NotAfter.UTC().Format(time.RFC3339), r.Problem)
	}
	r.Failed = e.problem != ""
	return r
}

// both are two problems in one sentence; the second one may be "".
func both(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}

// expires is when the certificate does; zero where there is none.
func (e *entry) expires() time.Time {
	if e.want.Source == ACME {
		return e.notAfter
	}
	if e.cert == nil {
		return time.Time{}
	}
	return e.cert.Leaf.NotAfter
}

// watchLocked has Changed called when the next certificate becomes a problem, or a
// greater one, and secrets tried again that could not be opened.
func (s *Store) watchLocked() {
	now := s.opts.now()
	var next time.Time
	for _, e := range s.hosts {
		if at := now.Add(openAgain); e.again && (next.IsZero() || at.Before(next)) {
			next = at
		}
		end := e.expires()
		if end.IsZero() || e.want.Source == SelfSigned {
			continue
		}
		for _, at := range []time.Time{end.Add(-soon), end} {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if !next.IsZero() {
		s.timer = time.AfterFunc(next.Sub(now)+time.Millisecond, func() {
			s.mu.Lock()
			if !s.closed {
				for _, e := range s.hosts {
					if e.again {
						s.takeLocked(e)
					}
				}
				s.watchLocked()
			}
			s.mu.Unlock()
			s.opts.Changed()
		})
	}
}

// Close stops what runs. Get works for what is here still.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	old := s.acme
	s.acme = nil
	s.mu.Unlock()
	old.stop()
}
