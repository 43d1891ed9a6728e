package wasm

import (
	"context"
	"errors"
	"io"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// The interface of exported handlers, version 1; docs/functions.md has it for those
// who write modules. A change that old modules do not bear gets other names, and
// these stay.
const (
	hostModule    = "verge_v1"
	handlerExport = "verge_handle_v1"
)

// maxRequest bounds the variables of a request, in bytes: a head of a request, which
// the server bounds, with names that are longer here.
const maxRequest = 256 << 10

// exchange is a request in the terms of that interface.
type exchange struct {
	vars []byte // NAME=value, each with a NUL behind it
	body io.Reader
	out  io.Writer
}

// exchangeKey is that of the exchange in the context of a call.
type exchangeKey struct{}

// errOutside is a trap: a module gave a piece of memory that it has not.
var errOutside = errors.New("it gave a place outside of its memory")

// errNoRequest is a trap: there is nothing to answer while an instance is made.
var errNoRequest = errors.New("it used the interface of handlers outside of " + handlerExport)

// broken is what read and write return when the other side is gone.
const broken = ^uint32(0)

// hostFunctions defines the module that handlers import.
func hostFunctions(ctx context.Context, rt wazero.Runtime) error {
	piece := func(mod api.Module, at, size uint32) []byte {
		if size == 0 {
			return nil
		}
		b, ok := mod.Memory().Read(at, size)
		if !ok {
			panic(errOutside)
		}
		return b
	}
	define := func(b wazero.HostModuleBuilder, name string, f func(x *exchange, p []byte) uint32) wazero.HostModuleBuilder {
		i32 := api.ValueTypeI32
		return b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
			x, ok := ctx.Value(exchangeKey{}).(*exchange)
			if !ok {
				panic(errNoRequest)
			}
			p := piece(mod, api.DecodeU32(stack[0]), api.DecodeU32(stack[1]))
			stack[0] = api.EncodeU32(f(x, p))
		}), []api.ValueType{i32, i32}, []api.ValueType{i32}).Export(name)
	}
	b := rt.NewHostModuleBuilder(hostModule)
	b = define(b, "request", (*exchange).request)
	b = define(b, "read", (*exchange).read)
	b = define(b, "write", (*exchange).write)
	_, err := b.Instantiate(ctx)
	return err
}

// request copies the variables of the request, if there is room for all of them, and
// returns how many bytes they have.
func (x *exchange) request(p []byte) uint32 {
	if len(x.vars) <= len(p) {
		copy(p, x.vars)
	}
	return uint32(len(x.vars)) //nolint:gosec // at most maxRequest
}

// read reads some of the body: at least one byte, 0 at its end, broken where it
// breaks off.
func (x *exchange) read(p []byte) uint32 {
	for len(p) > 0 {
		n, err := x.body.Read(p)
		switch {
		case n > 0:
			return uint32(n) //nolint:gosec // at most len(p), which is of the memory of a module
		case err == io.EOF:
			return 0
		case err != nil:
			return broken
		}
	}
	return 0
}

// write writes some of the response, and returns how many bytes that were, or broken.
func (x *exchange) write(p []byte) uint32 {
	if _, err := x.out.Write(p); err != nil {
		return broken
	}
	return uint32(len(p)) //nolint:gosec // of the memory of a module
}
