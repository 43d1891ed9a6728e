package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/pki"
)

// TestCertificates takes certificates through their whole life while requests are
// coming in: none of them may fail.
func TestCertificates(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge", "fog")
	w.addWorker("edge", "edge-2")
	w.allReady()
	w.root.apply(plain("certs", "1", 3, 100))
	w.run("rotation", w.rotateUnderTraffic)
	w.run("expired", w.expiredWorkerReturns)
	w.run("revoked", w.revokedWorkerJoinsAgain)
	w.run("removed", w.removeUnderTraffic)
	w.run("removed while away", w.removeWhileAway)
	w.run("removed cluster", w.removeCluster)
}

func (w *world) identityOf(name string) *pki.Identity {
	w.t.Helper()
	return must[*pki.Identity](w.t)(w.identityNow(name))
}

// identityNow may be read while it is written: it is in two files.
func (w *world) identityNow(name string) (*pki.Identity, error) {
	return pki.LoadIdentity(filepath.Join(w.worker[name].dir, engineapi.IdentityDir))
}

func (w *world) rotateUnderTraffic(t *testing.T) {
	before := must[client.Context](t)(client.ReadContext(w.root.contextFile()))
	oldContext := w.file("old-context-", "")
	if err := client.WriteContext(oldContext, before); err != nil {
		t.Fatal(err)
	}
	// A token of before works until the end.
	oldToken := w.token(w.cluster["edge"], apiv1.TokenRequest{Kind: "worker"})
	traffic := sendTraffic(t, "certs.test", w.worker["edge-1"].gateway, w.worker["fog-1"].gateway)
	pids := w.pids("certs")

	w.root.ok("ca", "rotate")
	eventually(t, 30*time.Second, "everybody follows the rotation", func() error {
		v, err := w.root.client().System.CA(context.Background())
		if err == nil && (!v.Rotating || len(v.Behind) > 0) {
			err = fmt.Errorf("behind: %v", v.Behind)
		}
		return err
	})
	if r := verge(t, oldContext, "get", "clusters"); r.code != 0 || !strings.Contains(r.err, "note:") {
		t.Errorf("the old context in a rotation: %d %s%s", r.code, r.out, r.err)
	}
	if r := verge(t, w.root.contextFile(), "get", "clusters"); r.code != 0 || strings.Contains(r.err, "note:") {
		t.Errorf("the new context in a rotation: %d %s%s", r.code, r.out, r.err)
	}
	late := w.addWorkerWith("edge", "edge-late", oldToken)
	w.allReady()

	// A restart in the middle of it changes nothing.
	w.root.kill()
	w.root.start()
	w.root.answers()
	eventually(t, 30*time.Second, "the rotation can be finished", func() error {
		if r := verge(t, w.root.contextFile(), "ca", "rotate", "--finish"); r.code != 0 {
			return errors.New(r.err)
		}
		return nil
	})
	eventually(t, 30*time.Second, "everybody trusts the new authority alone", func() error {
		v, err := w.root.client().System.CA(context.Background())
		if err == nil && (v.Rotating || len(v.Authorities) != 1 || len(v.Behind) > 0) {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
	refused(t, "the old context afterwards", verge(t, oldContext, "get", "clusters"), "authority", "context")
	for name := range w.worker {
		if got := w.identityOf(name).CAPEM(); got == before.CA || strings.Count(got, "BEGIN CERTIFICATE") != 1 {
			t.Errorf("%s trusts\n%s", name, got)
		}
	}
	traffic.noneFailed(t)
	for id, pid := range w.pids("certs") {
		if pids[id] != 0 && pids[id] != pid {
			t.Errorf("%s was restarted", id)
		}
	}
	late.kill()
	verge(t, "", "worker", "stop", "--data-dir", late.dir)
	w.cluster["edge"].ok("remove", "worker/edge/edge-late", "--force")
	delete(w.worker, "edge-late")
}

// expiredWorkerReturns gives a worker a certificate that has expired, as it would
// have after a year in a drawer.
func (w *world) expiredWorkerReturns(t *testing.T) {
	x, dir := w.worker["edge-2"], filepath.Join(w.worker["edge-2"].dir, engineapi.IdentityDir)
	pids := w.pids("certs")
	x.kill()
	ca := must[*pki.ClusterAuthority](t)(pki.OpenClusterAuthority(w.cluster["edge"].dir))
	id := w.identityOf("edge-2")
	chain := must[string](t)(ca.Issue(pki.LeafRequest{
		Subject: id.Subject(), PublicKey: id.Leaf().RawSubjectPublicKeyInfo, DNSNames: id.Leaf().DNSNames[1:], TTL: time.Minute,
	}, time.Now().Add(-time.Hour)))
	if err := pki.SaveIdentity(dir, chain, ca.PEM()); err != nil {
		t.Fatal(err)
	}
	x.start()
	eventually(t, 30*time.Second, "the expired certificate is renewed", func() error {
		id, err := w.identityNow("edge-2")
		if err != nil {
			return err
		}
		if until := id.Leaf().NotAfter; until.Before(time.Now().Add(24 * time.Hour)) {
			return fmt.Errorf("it is valid until %s", until)
		}
		return nil
	})
	w.allReady()
	w.root.holds("certs", 30*time.Second)
	if got := w.pids("certs"); fmt.Sprint(got) != fmt.Sprint(pids) {
		t.Errorf("instances before %v, after %v", pids, got)
	}
}

func (w *world) revokedWorkerJoinsAgain(t *testing.T) {
	x := w.worker["edge-2"]
	pids := runningIn(t, x.dir)
	old := w.identityOf("edge-2").Leaf().SerialNumber.String()
	w.cluster["edge"].ok("revoke", "worker/edge-2")
	wantEqual(t, "exit code of a worker whose key was revoked", x.wait(), 1)
	wantWords(t, "the worker", x.text(), "the key of this node was revoked", "verge token create --worker")
	for i, arg := range x.args {
		if arg == "--token-file" {
			x.args[i+1] = w.token(w.cluster["edge"], apiv1.TokenRequest{Kind: "worker"})
		}
	}
	x.start()
	eventually(t, 20*time.Second, "it gets another certificate", func() error {
		id, err := w.identityNow("edge-2")
		if err == nil && id.Leaf().SerialNumber.String() == old {
			err = errors.New("it has the one that was revoked")
		}
		return err
	})
	w.allReady()
	w.root.holds("certs", 30*time.Second)
	for id, r := range runningIn(t, x.dir) {
		if before, ok := pids[id]; ok && before.pid != r.pid {
			t.Errorf("%s was started again", id)
		}
	}
}

func (w *world) removeUnderTraffic(t *testing.T) {
	x := w.worker["edge-2"]
	traffic := sendTraffic(t, "certs.test", w.worker["fog-1"].gateway)
	context := w.cluster["edge"].contextFile()
	refused(t, "removing what is connected", verge(t, context, "remove", "worker/edge-2"), "verge drain worker/edge/edge-2", "--force")
	w.cluster["edge"].ok("remove", "worker/edge-2", "--force")
	wantEqual(t, "exit code of a removed worker", x.wait(), 1)
	wantWords(t, "the worker", x.text(), "this node was removed", "verge token create --worker")
	eventually(t, 20*time.Second, "the removed worker ends what it ran", func() error {
		return differs("instances there", len(runningIn(t, x.dir)), 0)
	})
	w.root.holds("certs", 30*time.Second)
	eventually(t, 20*time.Second, "requests go on", func() error {
		if good, _ := traffic.count(); good < 100 {
			return fmt.Errorf("%d were answered", good)
		}
		return nil
	})
	traffic.noneFailed(t)
	if out := w.cluster["edge"].ok("get", "workers", "-o", "name"); strings.Contains(out, "edge-2") {
		t.Errorf("it is still there: %s", out)
	}
	verge(t, "", "worker", "stop", "--data-dir", x.dir)
	delete(w.worker, "edge-2")
	// Its name is free.
	w.addWorker("edge", "edge-2b")
	w.allReady()
}

// A worker that was removed while its agent was away is one again after one start
// with a new token. What its engine still ran was placed elsewhere, and ends.
func (w *world) removeWhileAway(t *testing.T) {
	x := w.worker["edge-2b"]
	w.root.apply(strings.Replace(plain("more", "1", 6, 100), "    replicas: 6\n", "    replicas: 6\n    affinity: {cluster: [edge]}\n", 1))
	w.root.holds("more", 30*time.Second)
	before := runningIn(t, x.dir)
	if len(before) == 0 {
		t.Fatal("nothing runs there")
	}
	x.kill()
	w.cluster["edge"].ok("remove", "worker/edge-2b", "--force")
	w.root.holds("more", 30*time.Second)
	wantEqual(t, "instances that its engine still runs", len(runningIn(t, x.dir)), len(before))
	for i, arg := range x.args {
		if arg == "--token-file" {
			x.args[i+1] = w.token(w.cluster["edge"], apiv1.TokenRequest{Kind: "worker"})
		}
	}
	x.start()
	w.allReady()
	eventually(t, 20*time.Second, "what it ran has ended", func() error {
		for id, r := range runningIn(t, x.dir) {
			if before[id].pid == r.pid {
				return fmt.Errorf("%s runs on", id)
			}
		}
		return nil
	})
	wantWords(t, "the worker", x.text(), "this node was removed", "joins again")
	w.root.holds("more", 30*time.Second)
	w.root.ok("delete", "application/more")
}

func (w *world) removeCluster(t *testing.T) {
	refused(t, "removing what is in use", verge(t, w.root.contextFile(), "remove", "cluster/fog"), "verge drain cluster/fog", "--force")
	w.root.ok("remove", "cluster/fog", "--force")
	w.root.holds("certs", 40*time.Second)
	fog := w.cluster["fog"]
	eventually(t, 60*time.Second, "the removed cluster learns it and ends what it ran", func() error {
		if !strings.Contains(fog.text(), "this node was removed") {
			return errors.New("it does not know yet")
		}
		return differs("instances there", len(runningIn(t, w.worker["fog-1"].dir)), 0)
	})
	if !fog.running() {
		t.Error("the cluster has ended")
	}
	// The name is free for a new one.
	if _, err := w.root.client().Tokens.Create(t.Context(), apiv1.TokenRequest{Kind: "cluster", Cluster: "fog"}); err != nil {
		t.Errorf("the name is not free: %v", err)
	}
}

// addWorkerWith is addWorker with a token that is there already.
func (w *world) addWorkerWith(cluster, name, token string) *worker {
	w.t.Helper()
	return w.addWorker(cluster, name, "--token-file", token)
}
