// Package pace is when passes ran, how long they took, and what was heard since.
package pace
