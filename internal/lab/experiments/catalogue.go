package experiments

import (
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/kubeedge"
	"github.com/verge-edge/verge/internal/lab/experiments/mu"
	"github.com/verge-edge/verge/internal/lab/experiments/oakestra"
	"github.com/verge-edge/verge/internal/lab/experiments/promises"
	"github.com/verge-edge/verge/internal/lab/experiments/proxymity"
	"github.com/verge-edge/verge/internal/lab/experiments/study"
)

// virtual are the experiments in virtual time. Where the lab has one of the same
// name, it is another form of that.
var virtual = []experiment.Experiment{
	mu.LB, mu.Agility, study.LB, study.CallMethod, study.DataSource, study.Bandwidth, study.Gateway,
	kubeedge.LocalVirtual,
	proxymity.RouteCities, promises.RouteMixed, promises.RouteRandom, promises.RouteTails,
	mu.Predictor, mu.Autoscaler, mu.Overall, promises.ScaleRandom,
	promises.PlaceQuality, promises.PlaceRoot, oakestra.Split, oakestra.Schedulers, mu.Placement, study.Placement,
}

// All experiments by their names.
func All() []experiment.Experiment {
	all := there()
	for _, v := range virtual {
		i := slices.IndexFunc(all, func(x experiment.Experiment) bool { return x.Name == v.Name })
		if i < 0 {
			all = append(all, v)
		} else {
			all[i].Virtual = v.Virtual
		}
	}
	slices.SortFunc(all, func(a, b experiment.Experiment) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Catalogue is the list of experiments, to be shown.
type Catalogue []experiment.Experiment

// Table for people.
func (c Catalogue) Table() (head []string, rows [][]string) {
	head = []string{"NAME", "FORMS", "PAPER", "SHOWS", "CANNOT BE RUN BECAUSE"}
	for _, x := range c {
		rows = append(rows, []string{x.Name, strings.Join(x.Forms(), ","), x.Source, x.Shows, x.Missing})
	}
	return head, rows
}

// Virtual are the experiments that there are in virtual time.
func Virtual() (c Catalogue) {
	for _, x := range All() {
		if x.Virtual != nil {
			c = append(c, x)
		}
	}
	return c
}

// Find an experiment that can be run.
func Find(name string) (experiment.Experiment, error) {
	for _, x := range All() {
		if x.Name != name {
			continue
		}
		if x.Missing != "" {
			return x, fmt.Errorf("%s cannot be run: %s", name, x.Missing)
		}
		return x, nil
	}
	return experiment.Experiment{}, fmt.Errorf("there is no experiment %q: verge lab list has them", name)
}
