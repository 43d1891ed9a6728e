package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Leave takes the worker in dir out of its cluster, whose name is returned, and ends
// what is left of it but logs and volumes. Its agent must have ended. Where the cluster
// refuses or cannot be reached, nothing is changed.
func Leave(ctx context.Context, dir string, force bool) (cluster string, err error) {
	unlock, err := Lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	cluster, err = askToLeave(ctx, filepath.Join(dir, engineapi.IdentityDir), force)
	if err != nil {
		return cluster, err
	}
	var p *wire.Problem
	if err := stopEngine(ctx, dir); err != nil && !(errors.As(err, &p) && p.Code == "not-running") {
		return cluster, fmt.Errorf("it has left cluster %s, and its instances still run here: %w", cluster, err)
	}
	for _, name := range []string{
		engineapi.IdentityDir, engineapi.EngineConfigFile, engineapi.EngineOrdersFile, engineapi.EngineChangesFile,
	} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return cluster, fmt.Errorf("it has left cluster %s; remove its files: %w", cluster, err)
		}
	}
	return cluster, nil
}

// askToLeave has the cluster take the worker out. Who was taken out before has left.
func askToLeave(ctx context.Context, dir string, force bool) (cluster string, err error) {
	have, err := enroll.Joined(dir)
	if err != nil {
		return "", wire.Problemf(0, "no-worker", "give the --data-dir that verge worker was started with", "no worker of this folder has joined a cluster", "%v", err)
	}
	id, err := pki.LoadIdentity(dir)
	if err != nil {
		return have.Cluster, err
	}
	key, err := enroll.Key(dir)
	if err != nil {
		return have.Cluster, err
	}
	err = enroll.Asker{
		API: enroll.APIAddrs(have, have.Link, rpc.ClusterAPIPort), Server: have.LinkName, TLS: id.ClientTLS(have.LinkName),
		Prove: func(text string) ([]byte, error) { return pki.Prove(dir, text) },
	}.Leave(ctx, rpc.LeaveRequest{Force: force, RenewRequest: rpc.RenewRequest{
		V: wire.Version, Name: id.Subject().Name, PublicKey: id.Leaf().RawSubjectPublicKeyInfo, NatsKey: key.Public(), Version: obs.Version(),
	}})
	var p *wire.Problem
	switch {
	case err == nil,
		errors.As(err, &p) && (p.Code == rpc.CodeRemoved || p.Code == rpc.CodeUnknown || p.Code == "no-such-worker"):
		return have.Cluster, nil
	case p != nil && p.Status != 0 && p.Status != http.StatusNotFound: // which an older cluster answers
		return have.Cluster, err
	}
	return have.Cluster,
		wire.Problemf(0, "no-cluster",
			"try again when it can be reached; or have it removed there (verge remove worker/"+have.Cluster+"/"+id.Subject().Name+" --force), then verge worker stop here",
			"the cluster was not told", "%v", err)
}
