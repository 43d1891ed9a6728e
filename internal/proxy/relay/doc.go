// Package relay passes bytes and datagrams on between two connections.
//
// Promises:
//
//  1. A relay that rests holds one small buffer per direction. An end in one direction is passed on
//     as a half-close.
//  2. What is silent for halfClosedIdle after a half-close is cut.
package relay
