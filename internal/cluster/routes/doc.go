// Package routes is what workers are told of services: where their instances are, and who may
// use them. A worker gets the endpoints of the services that it uses.
package routes
