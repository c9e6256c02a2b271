"""Spark itself: a session, its Java, its class archive."""
