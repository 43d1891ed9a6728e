package hooks

import "github.com/verge-edge/verge/internal/obs"

// Samples are the metrics of the hooks, of which there are at most wire.MaxHooks.
func (k *Keeper) Samples() (out []obs.Sample) {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	overflow := k.overflow
	k.mu.Unlock()
	out = append(out, obs.Sample{
		Name:    "verge_hook_overflow_total",
		Help:    "Times that what has happened was not noted for any hook, since too much was to be stored already.",
		Counter: true, Value: float64(overflow),
	})
	for _, v := range k.Hooks("", true) {
		name := v.Name
		if v.Namespace != "" {
			name = v.Namespace + "/" + v.Name
		}
		of := func(more ...[2]string) [][2]string { return append([][2]string{{"hook", name}}, more...) }
		out = append(out,
			obs.Sample{Name: "verge_hook_waiting", Help: "Notices that wait for a hook.", Labels: of(),
				Value: float64(v.Waiting)},
			obs.Sample{Name: "verge_hook_oldest_seconds",
				Help: "Age of the oldest notice that waits for a hook; 0 where none does.", Labels: of(),
				Value: v.OldestSeconds},
			obs.Sample{Name: "verge_hook_deliveries_total",
				Help: "Notices that a hook has taken, and attempts in which it did not.", Counter: true,
				Labels: of([2]string{"result", "ok"}), Value: float64(v.Delivered)},
			obs.Sample{Name: "verge_hook_deliveries_total",
				Help: "Notices that a hook has taken, and attempts in which it did not.", Counter: true,
				Labels: of([2]string{"result", "failed"}), Value: float64(v.Failures)},
			obs.Sample{Name: "verge_hook_dropped_total",
				Help: "Notices for a hook that were dropped, since it was created.", Counter: true, Labels: of(),
				Value: float64(v.Dropped)},
		)
		for _, a := range []struct {
			result string
			n      uint64
		}{{"allowed", v.Allowed}, {"refused", v.Refused}, {"silent", v.Silent}} {
			out = append(out, obs.Sample{Name: "verge_hook_answers_total",
				Help: "What a hook said when it was asked; silent: nothing that counts.", Counter: true,
				Labels: of([2]string{"result", a.result}), Value: float64(a.n)})
		}
	}
	return out
}
