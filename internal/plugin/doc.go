// Package plugin asks schedulers that are programs of their own where instances
// are to run. A question goes out with the workers that pass every filter; the
// answer ranks them. The contract is a pair of JSON documents (Question, Answer),
// version 1, described for authors of plugins in docs/plugins.md.
//
// Promises:
//
//  1. A question and an answer are bounded in size (MaxQuestion, MaxAnswer) and in
//     time (the context); what is larger or later is an Error with its class.
//  2. Check lets nothing through that was not asked about: unknown workers or
//     instances, a worker twice, a score that is no number.
//  3. The token of a plugin is read from its file for each call, so that it can be
//     changed at any time, and is in no log, error or argument. It goes out over
//     TLS, over the loopback or over a unix socket only, and never to where a
//     redirection points.
package plugin
