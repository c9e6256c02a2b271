"""The silo command."""
