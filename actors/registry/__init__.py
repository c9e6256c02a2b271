"""The registry: sessions, topics, consumer groups."""
