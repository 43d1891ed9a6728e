package rival

import "github.com/verge-edge/verge/internal/sim"

// pending is a request on its way to an answer.
type pending[P any] struct {
	q     *sim.Request
	done  func(sim.End, string)
	tried *P // the pod that refused it; nil: none
}

// peers keeps what is known of pods, by the pod, across changes of the list.
type peers[P any] struct {
	list []*P
	by   map[*sim.Pod]*P
}

// use replaces the pods; add creates what is known of a new one.
func (p *peers[P]) use(pods []*sim.Pod, add func(*sim.Pod) *P) {
	by := make(map[*sim.Pod]*P, len(pods))
	p.list = p.list[:0]
	for _, pod := range pods {
		known := p.by[pod]
		if known == nil {
			known = add(pod)
		}
		by[pod] = known
		p.list = append(p.list, known)
	}
	p.by = by
}

// linkTo returns the link to a place; no distance if there is none.
func linkTo(links func(to string) *sim.Link, place string) *sim.Link {
	if links != nil {
		if l := links(place); l != nil {
			return l
		}
	}
	return &sim.Link{}
}
