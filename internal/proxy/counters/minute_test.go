package counters

import (
	"testing"
	"time"
)

func TestMinute(t *testing.T) {
	var m Minute
	begin := time.Now()
	for k := range 90 {
		m.Add(begin.Add(time.Duration(k) * time.Second))
	}
	if n := m.Sum(begin.Add(89 * time.Second)); n < 50 || n > 60 {
		t.Errorf("%d in the last minute", n)
	}
	if n := m.Sum(begin.Add(time.Hour)); n != 0 {
		t.Errorf("%d an hour later", n)
	}
}
