//go:build !linux

package experiments

import (
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/proxymity"
)

func there() []experiment.Experiment { return []experiment.Experiment{proxymity.Imbalance} }
