package resttest

import "context"

// WorkerMetrics is Figures.
func (f *Fake) WorkerMetrics(_ context.Context, cluster, worker string) ([]byte, error) {
	end, err := f.begin("worker-metrics")
	if err != nil {
		return nil, err
	}
	defer end()
	text, ok := f.Figures[cluster+"/"+worker]
	if !ok {
		return nil, missing("worker", worker)
	}
	return []byte(text), nil
}
