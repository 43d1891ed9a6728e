package busconn

import (
	"testing"
)

func TestRedialDelayIsBounded(t *testing.T) {
	for _, rounds := range []int{-1, 0, 1, 5, 6, 7, 62, 63, 64, 1 << 40} {
		for range 100 {
			if d := redialDelay(rounds); d < minRedial/2 || d > maxRedial {
				t.Fatalf("delay of round %d is %v", rounds, d)
			}
		}
	}
	if redialDelay(0) > minRedial || redialDelay(100) < maxRedial/2 {
		t.Fatal("the delay does not grow")
	}
}
