"""Spawns, watches, restarts and stops the actors of one store."""
