// Package enginehost keeps an engine process running. An engine outlives its agent: the next
// agent finds it by its socket, and one that has died is started again. While none answers,
// this package reads what instances write, so that none of them waits for it.
//
// Promise: there is one engine on a directory. One that stays and answers nothing is ended
// before another is started.
package enginehost
