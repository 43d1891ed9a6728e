package pattern

import "testing"

func TestLazy(t *testing.T) {
	re := Lazy("^a+$")
	first := re()
	if !first.MatchString("aa") || first.MatchString("ab") {
		t.Error("it is another expression")
	}
	if re() != first {
		t.Error("it is compiled again")
	}
	wrong := Lazy("(") // that is not found out before it is used
	defer func() {
		if recover() == nil {
			t.Error("what is no expression was compiled")
		}
	}()
	wrong()
}
