"""`Admin`: topics, consumer groups, and the state of a running store, all asked of the registry."""
