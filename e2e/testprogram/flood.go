package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// flood prints so many numbered lines of a size, with their newline, so many a second,
// each by a write of its own, and goes on without printing.
func flood(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("flood wants a number of lines, their size and how many a second, not %q", args)
	}
	var n [3]int
	for i, a := range args {
		var err error
		if n[i], err = strconv.Atoi(a); err != nil {
			return err
		}
	}
	lines, size, rate := n[0], n[1], n[2]
	const ticks = 100 // a second
	t := time.NewTicker(time.Second / ticks)
	defer t.Stop()
	for next := 0; next < lines; <-t.C {
		for range rate / ticks {
			head := fmt.Sprintf("line %08d ", next)
			if _, err := os.Stdout.WriteString(head + strings.Repeat("x", size-len(head)-1) + "\n"); err != nil {
				return err
			}
			next++
		}
	}
	for {
		<-t.C
	}
}
