package experiments

import (
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/kubeedge"
	"github.com/verge-edge/verge/internal/lab/experiments/mu"
	"github.com/verge-edge/verge/internal/lab/experiments/oakestra"
	"github.com/verge-edge/verge/internal/lab/experiments/promises"
	"github.com/verge-edge/verge/internal/lab/experiments/proxymity"
	"github.com/verge-edge/verge/internal/lab/experiments/study"
)

// there are the experiments of the lab that this system can run.
func there() []experiment.Experiment {
	return append([]experiment.Experiment{
		proxymity.Imbalance, proxymity.Latency, proxymity.Accuracy, proxymity.Overhead,
		oakestra.Deploy, oakestra.Control, oakestra.Idle, oakestra.Stress, oakestra.Balance, oakestra.Tunnel,
		oakestra.SplitReal, oakestra.Video(),
		kubeedge.Pods, kubeedge.Delay, kubeedge.Local, mu.LBReal, study.LBReal,
		promises.RouteChange, promises.RouteTailsReal, promises.ControlUnderLoad,
	}, study.StudiesReal...)
}
