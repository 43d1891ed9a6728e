// Package http1test has requests that a relay of HTTP/1.1 must refuse, for tests of its parts.
package http1test
