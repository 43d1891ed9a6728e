package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
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
	hosts  []string
}

// newAccount begins with no host. tell hears of each certificate that is there or
// could not be had, from any goroutine.
func newAccount(o Options, tell func(host string, notAfter time.Time, err error)) *account {
	a := &account{tell: tell}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	quiet := zap.NewNop() // what people should know comes by tell
	a.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return a.config, nil },
		RenewCheckInterval: renewCheck, OCSPCheckInterval: 24 * time.Hour, Logger: quiet,
	})
	a.config = certmagic.New(a.cache, certmagic.Config{
		Storage: &certmagic.FileStorage{Path: filepath.Join(o.Dir, acmeDir)},
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

// manage has certificates for these hosts, and for no others any more. It returns at
// once.
func (a *account) manage(hosts []string) {
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
	// It fails only where it works in the foreground.
	_ = a.config.ManageAsync(a.ctx, hosts)
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
	a.cache.Stop()
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
