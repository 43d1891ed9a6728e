package api

import (
	"testing"
)

func TestAmounts(t *testing.T) {
	for text, want := range map[string][3]int{"0": {0, 0, 0}, "2": {2, 2, 2}, "25%": {1, 0, 25}, "100%": {3, 3, 100}, "34%": {2, 1, 34}} {
		a, err := ParseAmount(text)
		if err != nil || a.String() != text || a.Of(3, true) != want[0] || a.Of(3, false) != want[1] || a.Of(100, true) != want[2] {
			t.Errorf("%s: %v %d %d %d %v", text, a, a.Of(3, true), a.Of(3, false), a.Of(100, true), err)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "101%", "%", "25 %", "10001", "999999999999", "+1", "01"} {
		if a, err := ParseAmount(text); err == nil {
			t.Errorf("%q is %v", text, a)
		}
	}
}
