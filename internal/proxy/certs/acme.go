package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	// Getting, keeping and renewing certificates without mistakes is what the people
	// of Caddy have learnt in ten years; their library does it.
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

// ACMEProtocol is what an ACME server asks for in the handshake of its challenge
// (RFC 8737).
const ACMEProtocol = "acme-tls/1"

const (
	// renewCheck is how often it is looked whether certificates are to be renewed,
	// which they are a third of their life before the end.
	renewCheck = time.Hour
	acmeDir    = "acme"
)

// account is the work with an ACME server. A nil one does nothing.
type account struct {
	cache  *certmagic.Cache
	config *certmagic.Config
	issuer *certmagic.ACMEIssuer
	tell   func(host string, notAfter time.Time, err error)
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // of what certmagic does in the background
	// shared is nil where gateways share nothing; see keep for the rest.
	shared *shared
	wake   chan struct{}
	work   sync.WaitGroup

	mu    sync.Mutex // guards below
	hosts []string
}

// newAccount begins with no host. tell hears of each certificate that is there or
// could not be had, from any goroutine.
func newAccount(o Options, tell func(host string, notAfter time.Time, err error)) *account {
	a := &account{tell: tell, wake: make(chan struct{}, 1)}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	quiet := zap.NewNop() // what people should know comes by tell
	a.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return a.config, nil },
		RenewCheckInterval: renewCheck, OCSPCheckInterval: 24 * time.Hour, Logger: quiet,
	})
	files := &certmagic.FileStorage{Path: filepath.Join(o.Dir, acmeDir)}
	var storage certmagic.Storage = files
	if o.Above != nil {
		a.shared = newShared(o.Above, files, o.Log)
		storage = a.shared
	}
	a.config = certmagic.New(a.cache, certmagic.Config{
		// The check is of a key of no meaning, which no cluster would keep.
		Storage: storage, DisableStorageCheck: a.shared != nil,
		OCSP:    certmagic.OCSPConfig{DisableStapling: true}, // authorities end it
		OnEvent: a.happened, Logger: quiet,
	})
	a.issuer = certmagic.NewACMEIssuer(a.config, certmagic.ACMEIssuer{
		CA: o.ACME.Directory, Email: o.ACME.Email, Agreed: true, TrustedRoots: o.ACME.Roots,
		// The gateway listens there, and hands challenges over.
		ListenHost: o.ACME.ListenHost, AltHTTPPort: o.ACME.HTTPPort, AltTLSALPNPort: o.ACME.TLSPort,
		DisableHTTPChallenge: o.ACME.HTTPPort == 0, DisableTLSALPNChallenge: o.ACME.TLSPort == 0,
		Logger: quiet,
	})
	a.config.Issuers = []certmagic.Issuer{a.issuer}
	if a.shared != nil {
		a.work.Go(a.keep)
	}
	return a
}

// happened hears what certmagic does.
func (a *account) happened(ctx context.Context, event string, data map[string]any) error {
	text := func(key string) string { s, _ := data[key].(string); return s }
	switch event {
	case "cached_managed_cert":
		names, _ := data["sans"].([]string)
		for _, host := range names {
			for _, c := range a.cache.AllMatchingCertificates(host) {
				if c.Leaf != nil {
					a.tell(host, c.Leaf.NotAfter, nil)
				}
			}
		}
	case "cert_obtained":
		if renewal, _ := data["renewal"].(bool); !renewal {
			return nil // it is not here yet
		}
		chain, err := a.config.Storage.Load(ctx, text("certificate_path"))
		if err != nil {
			a.tell(text("identifier"), time.Time{}, err)
			return nil
		}
		if block, _ := pem.Decode(chain); block != nil {
			if leaf, err := x509.ParseCertificate(block.Bytes); err == nil {
				a.tell(text("identifier"), leaf.NotAfter, nil)
			}
		}
	case "cert_failed":
		err, _ := data["error"].(error)
		if err == nil {
			err = fmt.Errorf("the authority gave none")
		}
		a.tell(text("identifier"), time.Time{}, err)
	}
	return nil
}

// manage keeps certificates for exactly these hosts. It returns at once.
func (a *account) manage(hosts []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var gone []certmagic.SubjectIssuer
	for _, h := range a.hosts {
		if !slices.Contains(hosts, h) {
			gone = append(gone, certmagic.SubjectIssuer{Subject: h})
		}
	}
	a.hosts = hosts
	if len(gone) > 0 {
		a.cache.RemoveManaged(gone)
	}
	if a.shared != nil {
		select {
		case a.wake <- struct{}{}:
		default: // it will look at them all
		}
		return
	}
	// It fails only where it works in the foreground.
	_ = a.config.ManageAsync(a.ctx, hosts)
}

// lookAgain is the pause before what the cluster could not be asked for is asked again,
// lookAtMost where nothing has come for a while.
const (
	lookAgain  = 4 * time.Second
	lookAtMost = 32 * time.Second
)

// keep has hosts managed as soon as the cluster has said whether there is a certificate
// for them, until the account ends. While the cluster is away that is what is on disk.
func (a *account) keep() {
	asked, pause := map[string]bool{}, lookAgain
	for {
		var again <-chan time.Time
		if !a.look(asked) {
			again = time.After(pause)
		}
		select {
		case <-a.ctx.Done():
			return
		case <-a.wake:
			pause = lookAgain
		case <-again:
			pause = min(2*pause, lookAtMost)
		}
	}
}

// look does it once, and reports whether nothing is left to do. asked are the hosts without a
// certificate: certmagic keeps trying those by itself.
func (a *account) look(asked map[string]bool) (done bool) {
	a.mu.Lock()
	hosts := slices.Clone(a.hosts)
	a.mu.Unlock()
	maps.DeleteFunc(asked, func(h string, _ bool) bool { return !slices.Contains(hosts, h) })
	done = a.shared.catchUp(a.ctx)
	for _, h := range hosts {
		if len(a.cache.AllMatchingCertificates(h)) > 0 {
			continue
		}
		done = false
		_, err := a.shared.Load(a.ctx, certmagic.StorageKeys.SiteCert(a.issuer.IssuerKey(), h))
		switch {
		case a.ctx.Err() != nil:
			return true
		case err == nil, errors.Is(err, fs.ErrNotExist) && !asked[h]:
			asked[h] = err != nil
			// It fails only where it works in the foreground.
			_ = a.config.ManageAsync(a.ctx, []string{h})
		case !errors.Is(err, fs.ErrNotExist):
			a.tell(h, time.Time{}, err)
		}
	}
	return done
}

// get is tls.Config.GetCertificate.
func (a *account) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := a.config.GetCertificate(hello)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // there is none yet: the client is told that the name is not known
	}
	return cert, nil
}

// challenge answers the authority over HTTP; false where the request is none of its.
func (a *account) challenge(w http.ResponseWriter, req *http.Request) bool {
	return a != nil && a.issuer.HandleHTTPChallenge(w, req)
}

// stop ends what runs in the background and waits for it.
func (a *account) stop() {
	if a == nil {
		return
	}
	a.cancel()
	a.work.Wait()
	a.cache.Stop()
	if a.shared != nil {
		a.shared.close()
	}
}

// Listens is the part of an Authority that says where the gateway listens, of its
// two addresses.
func (a Authority) Listens(plain, withTLS string) Authority {
	a.ListenHost, a.HTTPPort, a.TLSPort = "", 0, 0
	if host, port, err := net.SplitHostPort(plain); err == nil {
		a.ListenHost = host
		a.HTTPPort, _ = strconv.Atoi(port) // of a listener
	}
	if host, port, err := net.SplitHostPort(withTLS); err == nil {
		a.ListenHost = host
		a.TLSPort, _ = strconv.Atoi(port)
	}
	return a
}
