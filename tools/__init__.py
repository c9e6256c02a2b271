"""Offline tools: a read-only view of a store's files, and what looks at, checks and mends them."""
