// Package credentials says who may say and hear what on a bus. The authority of a server
// signs accounts and users; a node has a key and a token that the authority has signed for
// it. The subjects that a worker, a link and a plugin may use are here and nowhere else.
//
// Promises: keys are stored with mode 0600 and never printed; a key that was revoked stays
// refused with every token of before, also after a restart.
package credentials
