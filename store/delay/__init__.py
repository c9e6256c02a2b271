"""Delayed messages: delay levels, timers, and how far their delivery has come."""
