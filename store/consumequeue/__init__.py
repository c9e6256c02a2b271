"""Consume queues: their files, reading them, and look-ups by time."""
