package state

import (
	"os"
	"path/filepath"
	"testing"
)

// The room that counts is that of the file system that a file is in, not that of the
// root through which it is reached.
func TestRoomOfWhereAFileIs(t *testing.T) {
	other := "/dev/shm" // a file system of its own wherever it is
	dir, err := os.MkdirTemp(other, "verge")
	if err != nil {
		t.Skip("there is no other file system: ", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	there, err := RoomAt(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	room, err := RoomFor(f)
	if err != nil {
		t.Fatal(err)
	}
	here, err := RoomAt(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if there == here {
		t.Skip("both have as much room")
	}
	// Others write to both meanwhile.
	if apart(room, there) >= apart(room, here) {
		t.Errorf("room for %d, there is %d there and %d here", room, there, here)
	}
}

func apart(a, b int64) int64 { return max(a-b, b-a) }
