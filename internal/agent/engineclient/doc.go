// Package engineclient is how an agent speaks with an engine: the interface that both the
// engine in this process and the client of one in another process have (Client), and that
// client (Remote), over a socket in the engine's directory.
package engineclient
