// Package runtimetest is the conformance suite of runtime.Driver. A driver's
// test package calls Main from its TestMain and Run from a test:
//
//	var suite = runtimetest.Suite{Name: "process", New: newDriver}
//
//	func TestMain(m *testing.M)         { runtimetest.Main(m, suite) }
//	func TestConformance(t *testing.T) { suite.Run(t) }
//
// The programs that it starts are the test binary itself, which Main turns into
// one of them, so that nothing but /bin/sh is needed on the machine.
package runtimetest
