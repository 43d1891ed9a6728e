//go:build !linux

package experiments

func there() []Experiment { return []Experiment{proxymityImbalance} }
