// Package nstest makes machines for tests: network namespaces with links, routers
// and NAT between them.
package nstest
