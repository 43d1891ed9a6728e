package wire

import (
	"fmt"
	"testing"
)

// Of as many objects as are told each is found, and no other; whatever a cluster says
// instead does no harm.
func TestObjectMarks(t *testing.T) {
	var marks []ObjectMark
	for n := range MaxObjectMarks + 3 {
		marks = append(marks, MarkOf("shop", fmt.Sprint("models/", n)))
	}
	packed := PackMarks(marks)
	if len(packed) != MaxObjectMarks*len(ObjectMark{}) {
		t.Fatalf("%d bytes", len(packed))
	}
	for n, m := range marks {
		if got, want := HasMark(packed, m), n < MaxObjectMarks; got != want {
			t.Errorf("object %d is found: %t, want %t", n, got, want)
		}
	}
	if HasMark(packed, MarkOf("other", "models/1")) {
		t.Error("one of another namespace is found")
	}
	if HasMark(PackMarks(nil), marks[0]) || HasMark([]byte("short"), marks[0]) {
		t.Error("one is found where there is none")
	}
	for n := range packed {
		HasMark(packed[n:], marks[7]) // out of order, and with a rest
	}
}
