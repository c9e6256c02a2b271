"""`Admin`: topics, consumer groups, and the state of a running store."""
