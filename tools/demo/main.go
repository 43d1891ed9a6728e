// Command demo is `make demo`: it puts a root, three clusters and six workers on
// the stage, applies the guestbook with the command line, sends requests
// throughout, kills a worker and the root, measures what visitors notice, and
// leaves nothing behind.
//
// It ends with 0 if everything went as Verge promises, with 1 if not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/verge-edge/verge/tools/stage"
)

func main() {
	verge := flag.String("verge", "bin/verge", "the verge binary")
	file := flag.String("file", "examples/guestbook/verge.yaml", "the descriptor of the guestbook")
	keep := flag.Bool("keep", false, "leave everything running at the end")
	rate := flag.Int("rate", 100, "requests per second")
	stop := flag.String("stop", "", "stop what --keep left running in this folder, and remove it")
	flag.Parse()
	if *stop != "" {
		exit(stage.Clear(*stop))
	}
	if *rate < 1 || *rate > 1000 {
		exit(fmt.Errorf("--rate is %d, it must be 1 to 1000", *rate))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	exit(run(ctx, *verge, *file, *rate, *keep))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run plays the demo and clears the stage, whatever happened on it.
func run(ctx context.Context, verge, file string, rate int, keep bool) (err error) {
	s, err := stage.New(verge)
	if err != nil {
		return err
	}
	d := &demo{stage: s, file: file, rate: rate, out: newReport(os.Stdout)}
	kept := false
	defer func() {
		if kept {
			return
		}
		if ctx.Err() != nil {
			err = errors.Join(errors.New("interrupted"), err)
		}
		d.out.step("clearing the stage")
		err = errors.Join(err, stage.Clear(s.Dir))
		d.out.step("no process, control group or file is left")
	}()
	if err := d.play(ctx); err != nil {
		return err
	}
	d.summary()
	if keep {
		kept = true
		d.invite()
	}
	return d.out.verdict()
}
