package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// maxReason bounds what a gate says, in bytes.
const maxReason = 500

// verdict is what came of asking a gate.
type verdict struct {
	label    string
	closed   bool // it fails closed
	answered bool
	allowed  bool
	why      string
}

func (v *verdict) String() string {
	switch {
	case v.answered && v.allowed:
		return "it agrees"
	case v.answered:
		return "it refuses: " + v.why
	}
	return v.why
}

// Asks says whether any gate is asked before an operation in a namespace.
func (k *Keeper) Asks(operation, namespace string) bool {
	if !k.Any() {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.hooks {
		if h.asked(operation, namespace) {
			return true
		}
	}
	return false
}

// Gates are the namespaces in which gates are asked before an operation, "" for all of them,
// with what it means there if none answers: wire.HookClosed where it is that of any.
func (k *Keeper) Gates(operation string) map[string]string {
	out := map[string]string{}
	if !k.Any() {
		return out
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.hooks {
		if h.asked(operation, h.rec.Namespace) && out[h.rec.Namespace] != wire.HookClosed {
			out[h.rec.Namespace] = h.rec.OnFailure
		}
	}
	return out
}

// asked says whether a hook is asked before an operation in a namespace. The mutex of
// the keeper is held.
func (h *hook) asked(operation, namespace string) bool {
	return slices.Contains(h.rec.Before, operation) && h.rec.Paused == "" &&
		(h.rec.Namespace == "" || h.rec.Namespace == namespace)
}

// Ask asks all gates that a change of an application concerns, at once, and waits for them. It
// returns nil if the change is allowed, with warnings about optional gates that did not answer;
// else a problem. Operation is one of wire.Gates.
func (k *Keeper) Ask(ctx context.Context, d wire.HookData) (warnings []string, err error) {
	if !k.Any() {
		return nil, nil
	}
	type gate struct {
		h *hook
		task
	}
	var gates []gate
	k.mu.Lock()
	for _, h := range k.order {
		if h.asked(d.Operation, d.Namespace) {
			gates = append(gates, gate{h, task{rec: h.rec, client: h.client}})
		}
	}
	k.mu.Unlock()
	if len(gates) == 0 {
		return nil, nil
	}
	body := k.questionOf(d)
	verdicts := make([]verdict, len(gates))
	var all sync.WaitGroup
	for i, g := range gates {
		all.Go(func() { verdicts[i] = k.question(ctx, g.h, &g.task, body) })
	}
	all.Wait()
	return k.decide(d, verdicts)
}

// questionOf is the body of a question about a change.
func (k *Keeper) questionOf(d wire.HookData) string {
	d.Descriptor = cut(d.Descriptor, maxDescriptor)
	return k.message("before."+d.Operation, k.o.Now(), d)
}

// maxDescriptor of a question; the largest that can be applied.
const maxDescriptor = 1 << 20

// decide makes one answer of those of all gates: a refusal counts before a silence.
func (k *Keeper) decide(d wire.HookData, verdicts []verdict) (warnings []string, err error) {
	for _, v := range verdicts {
		switch {
		case v.answered && !v.allowed:
			return nil, wire.Problemf(403, wire.CodeHookRefused,
				"change what it does not like; verge hook ls shows who asks", "nothing was changed: a hook refuses it",
				"hook %s, asked before %s of %s: %s", v.label, d.Operation, d.Subject, v.why)
		case !v.answered && v.closed && err == nil:
			pause := "verge hook pause " + v.label
			if namespace, name, in := strings.Cut(v.label, "/"); in {
				pause = "verge hook pause " + name + " --namespace " + namespace
			}
			err = wire.Problemf(503, wire.CodeHookSilent,
				"see to it that it answers, then try again; who may manage it can leave it out: "+pause,
				"nothing was changed: a hook that must agree did not",
				"hook %s, asked before %s of %s: %s; without its word nothing is done (on_failure: closed)", v.label,
				d.Operation, d.Subject, v.why)
		case !v.answered && !v.closed:
			warnings = append(warnings,
				fmt.Sprintf("hook %s was asked and did not answer: %s; it was done all the same (on_failure: open)",
					v.label, v.why))
		}
	}
	if err != nil {
		return nil, err
	}
	return warnings, nil
}

// question asks one gate.
func (k *Keeper) question(ctx context.Context, h *hook, t *task, body string) verdict {
	a := k.post(ctx, t.client, &t.rec, messageID(), body, maxReadAnswer)
	v := answer(&a)
	v.label, v.closed = t.label(), t.rec.OnFailure != wire.HookOpen
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !v.answered:
		h.silent++
	case v.allowed:
		h.allowed++
	default:
		h.refused++
	}
	h.last, h.lastAt = "asked: "+v.String(), k.o.Now().UTC()
	if !v.answered {
		k.o.Log.Warn("a hook was asked and did not answer", "hook", h.label(), "why", v.why)
	}
	return v
}

// answer reads what a gate says: 2xx and {"allow": true}, or {"allow": false,
// "reason": "…"}. All else is no answer.
func answer(a *attempt) (v verdict) {
	var said apiv1.HookAnswer
	switch {
	case !a.ok():
		v.why = a.String()
	case a.cut:
		v.why = fmt.Sprintf("its answer is longer than %d KiB", maxReadAnswer>>10)
	case json.Unmarshal(a.body, &said) != nil, said.Allow == nil:
		v.why = "its answer is not {\"allow\": true} or {\"allow\": false, \"reason\": \"…\"}"
	default:
		v.answered, v.allowed = true, *said.Allow
		v.why = cut(printable(said.Reason), maxReason)
		if v.why == "" {
			v.why = "it gives no reason"
		}
	}
	return v
}

// printable is a text that cannot do anything to a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}
