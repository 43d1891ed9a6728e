package bus

import "context"

// The log is kept short the way log-structured stores do it: what is still
// valid at its old end is written again at its new end, then the old end is cut
// off. Each byte that is written causes at most about one more to be written.
const (
	// cleanSlack is how much more than twice its content the log may take.
	cleanSlack = 8 << 20
	// cleanStep bounds what one Commit moves, so that none takes long.
	cleanStep = 1 << 20
	// purgeStep is how much is cut off at a time: a cut rewrites a file.
	purgeStep = 4 << 20
)

// tidyLocked bounds tombstones and log. It is called after a Commit; what fails
// is tried again after the next.
func (s *store) tidyLocked() {
	// Forgotten here only: the log has them until they are cut off, and by then
	// it has the floor.
	if drop := s.m.surplus(MaxTombstones, tombstoneSlack); len(drop) > 0 {
		s.m.forget(drop, drop[len(drop)-1].Rev)
	}
	if s.logBytes > 2*s.m.size()+s.slack {
		if err := s.moveLocked(); err != nil {
			s.log.Warn("clean the log: move", "error", err)
			return
		}
	}
	if err := s.purgeLocked(); err != nil {
		s.log.Warn("clean the log: cut off", "error", err)
	}
}

// moveLocked writes the live items of the oldest records again.
func (s *store) moveLocked() error {
	homes := map[*record]bool{}
	total := 0
	c := content{floor: s.m.lowest()}
	for _, r := range s.records {
		if r.live == 0 {
			continue
		}
		if total += r.size; total > cleanStep && len(homes) > 0 {
			break
		}
		homes[r] = true
		if r == s.timelineAt {
			c.timeline = s.timeline
		}
	}
	items := s.m.at(homes)
	for _, it := range items {
		c.entries = append(c.entries, it.Entry)
	}
	home, err := s.writeLocked(c)
	if err != nil {
		return err
	}
	s.m.move(items, home)
	return nil
}

// purgeLocked cuts off records without live items from the old end.
func (s *store) purgeLocked() error {
	dead, bytes := 0, 0
	for dead < len(s.records) && s.records[dead].live == 0 {
		bytes += s.records[dead].size
		dead++
	}
	if bytes < min(purgeStep, s.slack) || dead == len(s.records) {
		return nil
	}
	if s.loggedFloor < s.m.lowest() {
		if _, err := s.writeLocked(content{floor: s.m.lowest()}); err != nil {
			return err
		}
	}
	if err := s.js.purge(context.Background(), s.records[dead].seq); err != nil {
		return err
	}
	s.records = s.records[dead:]
	s.logBytes -= bytes
	return nil
}
