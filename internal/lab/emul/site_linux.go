package emul

// way adds the lines between two ports that are shared with others, in their order.
func (s *Switch) way(from, to int) []*line {
	way := s.lines[:0]
	if up := s.ups[from]; up != nil {
		way = append(way, up)
	}
	if a, b := s.sites[from], s.sites[to]; a != b {
		if a != nil {
			way = append(way, &a.up)
		}
		if b != nil {
			way = append(way, &b.down)
		}
	}
	return way
}

// SetSites replaces all sites. What is on its way stays due as it was.
func (s *Switch) SetSites(sites []Site) error {
	if err := checkSites(sites, len(s.ports)); err != nil {
		return err
	}
	lines := linesOf(sites, len(s.ports))
	return s.do(func() { s.sites = lines })
}
