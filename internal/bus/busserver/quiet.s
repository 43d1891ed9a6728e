// So that the compiler lets quiet.go declare a function without a body.
