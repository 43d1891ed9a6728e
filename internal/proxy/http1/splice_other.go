//go:build !linux

package http1

const spliceMin = 1 << 62

type splicer struct{ in int }

func newSplicer() *splicer { return nil }

func (s *splicer) done() {} // there is none

func canSplice(_, _ *Conn) bool { return false }

func (m *mover) splice() error { return nil } // never called
