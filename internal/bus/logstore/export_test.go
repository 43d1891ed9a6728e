package logstore

import (
	"time"

	"github.com/verge-edge/verge/internal/bus"
)

// SetPatience sets how long a store waits for an acknowledgement.
func SetPatience(s bus.Store, d time.Duration) { s.(*Store).patience = d }

// SetFree makes a store believe in another free space.
func SetFree(s bus.Store, n uint64) {
	s.(*Store).free = func(string) (uint64, error) { return n, nil }
}

// LogSize is what the log of a store takes, and what it needs.
func LogSize(s bus.Store) (log, live int) {
	own := s.(*Store)
	w := <-own.turn
	defer w.release()
	return w.logBytes, own.m.Size()
}

// FirstRecord is the number of the oldest message of the log.
func FirstRecord(s bus.Store) uint64 {
	w := <-s.(*Store).turn
	defer w.release()
	return w.records[0].Seq
}

// Rest does what the store does when it has not been used for a while.
func Rest(s bus.Store) { s.(*Store).js.RestNow() }

// Resting reports whether the store has given its clock back.
func Resting(s bus.Store) bool {
	return s.(*Store).js.Resting()
}
