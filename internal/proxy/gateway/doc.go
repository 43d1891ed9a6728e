// Package gateway is what users meet at a worker that publishes services: listeners and
// certificates, which service a request or port is for, and how much a client may send.
//
// Promises:
//
//  1. What is published is replaced as a whole. Listeners that stay, connections, and what
//     limits know of clients go on.
//  2. No client has so many connections that others have none.
//  3. A client's address is what the connection says, or what a configured balancer says by
//     the PROXY protocol; nobody else is believed.
package gateway
