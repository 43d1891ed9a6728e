// Package tlsconf makes all TLS configurations, so that a setting that all connections share
// (the lowest version, cipher suites, curves) is changed in one place.
//
// There are two kinds. Internal connections have Verge at both ends and speak TLS 1.3 only.
// Public ones end in programs of others (browsers, receivers of hooks, plugins), some of which
// have no more than TLS 1.2. Certificates, pools of authorities and names come from whoever
// opens the port or connects; package pki makes those of nodes.
//
// What a port adds on its own stays with the port: internal/pki switches session tickets off
// for the configurations of nodes, since a resumed session would be judged by an old
// certificate; internal/proxy/data switches them on again, with keys of its own, since it asks
// for the certificate of each peer anyway and new connections are frequent.
//
// Promises: Server, MutualServer and Client never weaken a configuration that they are given,
// and never let the system's authorities vouch for a peer; a test of internal/house finds a
// tls.Config that is made elsewhere.
package tlsconf
