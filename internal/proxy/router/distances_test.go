package router

import (
	"testing"
	"time"
)

func TestMinute(t *testing.T) {
	var m minute
	begin := time.Now()
	for k := range 90 {
		m.add(begin.Add(time.Duration(k) * time.Second))
	}
	if n := m.sum(begin.Add(89 * time.Second)); n < 50 || n > 60 {
		t.Errorf("%d in the last minute", n)
	}
	if n := m.sum(begin.Add(time.Hour)); n != 0 {
		t.Errorf("%d an hour later", n)
	}
}
