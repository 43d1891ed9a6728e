package stage

import (
	"context"
	"errors"

	"github.com/verge-edge/verge/client"
)

// Small is a stage with a root and a cluster, and clients of both, for benchmarks.
type Small struct {
	Stage   *Stage
	Root    *Root
	Cluster *Cluster
	// Above is a client of the root, Within one of the cluster.
	Above, Within *client.Client
}

// Begin starts both; prepare, if it is not nil, is called before.
func Begin(ctx context.Context, verge string, prepare func(*Stage) error) (_ *Small, err error) {
	s := &Small{}
	if s.Stage, err = New(verge); err != nil {
		return nil, err
	}
	if prepare != nil {
		err = prepare(s.Stage)
	}
	if err == nil {
		s.Root, err = s.Stage.Root(ctx)
	}
	if err == nil {
		s.Cluster, err = s.Stage.Cluster(ctx, s.Root, "edge")
	}
	if err == nil {
		s.Above, err = s.Root.Client()
	}
	if err == nil {
		s.Within, err = s.Cluster.Client()
	}
	if err != nil {
		return nil, errors.Join(err, s.End())
	}
	return s, nil
}

// End ends everything on the stage. It may be called on nil.
func (s *Small) End() error {
	if s == nil {
		return nil
	}
	for _, c := range []*client.Client{s.Above, s.Within} {
		if c != nil {
			c.Close()
		}
	}
	return Clear(s.Stage.Dir)
}
