package pattern

import "testing"

func TestLazy(t *testing.T) {
	re := Lazy("^a+$")
	if !re().MatchString("aa") || re().MatchString("ab") || re() != re() {
		t.Error("it is not compiled, or not once")
	}
	wrong := Lazy("(") // that is not found out before it is used
	defer func() {
		if recover() == nil {
			t.Error("what is no expression was compiled")
		}
	}()
	wrong()
}
