package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// vault has one secret, which can be opened or not.
type vault struct {
	mu    sync.Mutex
	value []byte
	err   error
}

func (v *vault) Version(string, string) string { return "1" }

func (v *vault) Open(string, string) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value, v.err
}

// A certificate in a secret that could not be opened for a moment is shown soon after,
// although neither the secret nor a route has changed.
func TestASecretIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "shop.example"
		own, err := openIssuer(t.TempDir(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		made, err := own.issue(host, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		var value []byte
		for _, c := range made.Certificate {
			value = append(value, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c})...)
		}
		v := &vault{
			value: append(value, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...),
			err:   errors.New("too many open files"),
		}
		s := New(Options{Dir: t.TempDir(), Secrets: v})
		defer s.Close()
		s.Set([]Want{{Host: host, Source: FromSecret, Namespace: "default", Secret: "cert"}})
		shown := func() *tls.Certificate {
			c, err := s.Get(&tls.ClientHelloInfo{ServerName: host})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		if c, r := shown(), s.Reports()[0]; c != nil || !r.Failed {
			t.Fatalf("while it cannot be opened: %v, %+v", c, r)
		}
		v.mu.Lock()
		v.err = nil
		v.mu.Unlock()
		time.Sleep(2 * openAgain)
		synctest.Wait()
		if c, r := shown(), s.Reports()[0]; c == nil || r.Failed {
			t.Errorf("when it can be opened again: %v, %+v", c, r)
		}
	})
}
