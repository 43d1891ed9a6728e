package emul

import "fmt"

// Site is hosts that share one connection to all others. What they send each other
// does not pass it.
type Site struct {
	// Ports by their numbers; each belongs to one site at most.
	Ports []int `json:"ports"`
	// Up is what leaves the site, Down what comes in, in bits per second, all hosts
	// together; 0 is without limit.
	Up   int64 `json:"up,omitempty"`
	Down int64 `json:"down,omitempty"`
	// Buffer is how many bytes may wait in front of each; 0 is as in Link.
	Buffer int64 `json:"buffer,omitempty"`
}

// siteLines are the two directions of a site's connection.
type siteLines struct{ up, down line }

// checkSites says what cannot be, for a switch with so many ports.
func checkSites(sites []Site, ports int) error {
	at := map[int]bool{}
	for _, s := range sites {
		for _, rate := range []int64{s.Up, s.Down} {
			if err := (Link{Rate: rate, Buffer: s.Buffer}).Validate(); err != nil {
				return fmt.Errorf("site: %w", err)
			}
		}
		for _, p := range s.Ports {
			if p < 0 || p >= ports {
				return fmt.Errorf("site: host %d: there are %d", p, ports)
			}
			if at[p] {
				return fmt.Errorf("site: host %d is in two", p)
			}
			at[p] = true
		}
	}
	return nil
}

// linesOf each port; nil for those in no site.
func linesOf(sites []Site, ports int) []*siteLines {
	out := make([]*siteLines, ports)
	for _, s := range sites {
		l := &siteLines{up: line{rate: s.Up, buffer: s.Buffer}, down: line{rate: s.Down, buffer: s.Buffer}}
		for _, p := range s.Ports {
			out[p] = l
		}
	}
	return out
}
