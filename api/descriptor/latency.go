package descriptor

import (
	"fmt"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
)

// latencies checks what a service must be near.
func (v *validator) latencies(path, name string, s *api.Service) {
	first := map[string]bool{}
	for i, l := range s.Latency {
		at := fmt.Sprintf("%s[%d]", path, i)
		if v.spoiled(at) || v.full() {
			continue
		}
		_, isPlace := l.Place()
		_, _, isAddress := l.Address()
		switch service := l.Service(); {
		case l.Max == 0 && l.Distance == 0:
			v.complain(at, "says neither max nor distance", "write max: 20ms, distance: 100km or both")
		case service != "" && service == name:
			v.complain(at+".to", "is the service itself", "name another; anti_affinity keeps its instances apart")
		case service != "":
			v.sibling(at+".to", service)
		case !isPlace && !isAddress:
			v.complain(at+".to", words.Quote(l.To)+" is no service, place or address",
				"write a service of the application, latitude,longitude, or an address as 192.0.2.7, users.example.org or "+
					"users.example.org:443")
		case isAddress && l.Distance > 0:
			v.complain(at+".distance", "is not known of an address", "use max, or name the place as latitude,longitude")
		}
		if first[l.To] {
			v.complain(at+".to", words.Quote(l.To)+" is listed twice", "remove one of them")
		}
		first[l.To] = true
	}
}
