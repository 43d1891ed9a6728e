package nodeclient_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/rest/nodeclient"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/rest/transport"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestJoinAt(t *testing.T) {
	f := &resttest.Fake{NodeData: resttest.NodeData{JoinAnswer: rpc.JoinReply{V: 1, Cluster: "edge"}}}
	s, _, admin := resttest.Serve(t, f, nil)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(admin.CA))
	conf := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	dead := "127.0.0.1:1"
	reply, err := nodeclient.JoinAt(t.Context(), []string{dead, s.Addr().String()}, conf,
		rpc.JoinRequest{V: 1, Token: "t", Name: "edge", PublicKey: []byte("k")})
	if err != nil || !reflect.DeepEqual(reply, f.JoinAnswer) {
		t.Fatalf("got %+v, %v", reply, err)
	}

	calls := 0
	f.Hook = func(*resttest.Fake, string) error {
		calls++
		return wire.Problemf(403, "token-used", "make a new one", "the token was used before", "by edge")
	}
	_, err = nodeclient.JoinAt(t.Context(), []string{s.Addr().String(), s.Addr().String()}, conf,
		rpc.JoinRequest{V: 1, PublicKey: []byte("k")})
	wantProblem(t, err, "token-used", "used before")
	if calls != 1 {
		t.Errorf("a refused token was tried %d times", calls)
	}

	_, err = nodeclient.JoinAt(t.Context(), []string{s.Addr().String()}, &tls.Config{RootCAs: x509.NewCertPool()},
		rpc.JoinRequest{})
	wantProblem(t, err, transport.CodeTLS, "not from the authority")
	if _, err = nodeclient.JoinAt(t.Context(), nil, conf, rpc.JoinRequest{}); err == nil {
		t.Error("no address was no error")
	}
}

func wantProblem(t *testing.T, err error, code, text string) {
	t.Helper()
	var p *wire.Problem
	if !errors.As(err, &p) || p.Code != code || !strings.Contains(err.Error(), text) || p.Remedy == "" {
		t.Fatalf("got %v, want problem %q with %q and a remedy", err, code, text)
	}
}
