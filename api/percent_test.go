package api

import (
	"testing"
)

func TestPercents(t *testing.T) {
	for text, want := range map[string]Percent{"0%": 0, "5%": 500, "0.5%": 50, "0.05%": 5, "12.34%": 1234, "99.9%": 9990, "100%": AllPercent} {
		p, err := ParsePercent(text)
		if err != nil || p != want || p.String() != text {
			t.Errorf("%s: %d %s %v", text, p, p, err)
		}
	}
	if p, err := ParsePercent("5.50%"); err != nil || p.String() != "5.5%" {
		t.Errorf("%s %v", p, err)
	}
	for _, text := range []string{"", "5", "-1%", "100.01%", "101%", "%", "5 %", "05%", "1.234%", "1e1%", ".5%", "999999999999%"} {
		if p, err := ParsePercent(text); err == nil {
			t.Errorf("%q is %v", text, p)
		}
	}
}
