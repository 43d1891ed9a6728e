package objects

import (
	"context"

	"github.com/verge-edge/verge/internal/obs"
)

// Samples are the store's figures at this moment.
func (s *Store) Samples() []obs.Sample {
	u, err := s.Usage(context.Background())
	if err != nil {
		return nil // the role says itself that its store does not answer
	}
	own, copied := [][2]string{{"kind", "own"}}, [][2]string{{"kind", "copy"}}
	const there, bytes = "Objects that are here, by whose they are: own, or copies of the root's.",
		"Bytes of the objects that are here."
	out := []obs.Sample{
		{Name: "verge_objects", Help: there, Labels: own, Value: float64(u.Objects)},
		{Name: "verge_objects", Help: there, Labels: copied, Value: float64(u.Copies)},
		{Name: "verge_objects_bytes", Help: bytes, Labels: own, Value: float64(u.ObjectBytes)},
		{Name: "verge_objects_bytes", Help: bytes, Labels: copied, Value: float64(u.CopyBytes)},
		{Name: "verge_object_puts_total", Help: "Objects that were put since the start.", Counter: true,
			Value: float64(s.Counts.Puts.Load())},
		{Name: "verge_object_gets_total", Help: "Objects that were asked for since the start.", Counter: true,
			Value: float64(s.Counts.Gets.Load())},
		{Name: "verge_object_damaged_total", Help: "Objects with damaged content, since the start.", Counter: true,
			Value: float64(s.Counts.Damaged.Load())},
	}
	if s.o.Above == nil {
		return out
	}
	return append(out,
		obs.Sample{Name: "verge_object_fetched_total", Help: "Objects that were copied from the root since the start.",
			Counter: true, Value: float64(s.Counts.Fetched.Load())},
		obs.Sample{Name: "verge_object_stale_total",
			Help: "Copies that were given out while the root could not be asked, since the start.", Counter: true,
			Value: float64(s.Counts.Stale.Load())},
		obs.Sample{Name: "verge_object_evicted_total", Help: "Copies that were dropped for others since the start.",
			Counter: true, Value: float64(s.Counts.Evicted.Load())},
	)
}
