// Package proximity is what is known of distances: between workers, to addresses that services
// name, and from where requests enter. It says what is to be measured next.
//
// Promises:
//
//  1. Measurements are bounded per worker and time, and old ones lose their weight.
//  2. A service is placed without a measurement once it has waited for it as long as it may.
package proximity
