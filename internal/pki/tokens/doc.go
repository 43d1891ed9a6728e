// Package tokens has the tokens with which a node joins, what is stored of them, and the
// bearer tokens of the HTTP interface.
//
// Promises: what is stored has only hashes of secrets; printing or logging a Token shows
// none; a token admits one node, which may use it again until it expires.
package tokens
