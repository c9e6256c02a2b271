"""Spark itself: a session with defaults for one machine, its Java, and its class archive."""
