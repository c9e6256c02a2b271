"""`Admin`: topics, consumer groups, and the state of a running store. It asks the registry."""
