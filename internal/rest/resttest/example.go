package resttest

import (
	"context"
	"fmt"
	"testing"

	"github.com/verge-edge/verge/client"
)

// exampleTB is what an example, which has no testing.TB, needs of one.
type exampleTB struct {
	testing.TB // nil: nothing else is asked of it
	ends       []func()
}

func (e *exampleTB) Helper()                           {}
func (e *exampleTB) Context() context.Context          { return context.Background() }
func (e *exampleTB) Cleanup(f func())                  { e.ends = append(e.ends, f) }
func (e *exampleTB) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (e *exampleTB) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// ServeExample serves a fake for an example. It returns the context of an administrator, and
// what ends the server.
func ServeExample(f *Fake) (admin client.Context, stop func()) {
	t := new(exampleTB)
	_, _, admin = Serve(t, f, nil)
	return admin, func() {
		for _, end := range t.ends {
			end()
		}
	}
}
