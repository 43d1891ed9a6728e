// Package cgi is how a request reaches a module and its answer comes back, as RFC 3875 says:
// variables of the environment, and an answer that begins with fields of a header.
package cgi
