package logfile

import (
	"bytes"
	"os"
	"syscall"
	"testing"
)

// BenchmarkTake is what a chunk costs its collector: one line, as of a program that says
// something now and then, and as much as a pipe holds.
func BenchmarkTake(b *testing.B) {
	for name, chunk := range map[string][]byte{
		"line": []byte("a line of some program\n"),
		"full": bytes.Repeat([]byte("0123456789abcde\n"), chunkSize/16),
	} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			program, err := OpenPipe(dir)
			if err != nil {
				b.Fatal(err)
			}
			defer program.Close()
			f, err := os.OpenFile(Pipe(dir), os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			in := &intake{store: newStore(dir)}
			fd := f.Fd()
			if err := syscall.SetNonblock(int(fd), true); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(chunk)))
			b.ResetTimer()
			for b.Loop() {
				if _, err := program.Write(chunk); err != nil {
					b.Fatal(err)
				}
				if n, _ := in.take(fd); n != len(chunk) {
					b.Fatalf("%d of %d bytes", n, len(chunk))
				}
				if n, end := in.take(fd); n != 0 || end { // as run does, before it waits
					b.Fatalf("%d bytes, %v", n, end)
				}
			}
		})
	}
}
