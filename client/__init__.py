"""Everything that a user's process imports. `session.py` is the connection to a store, which all
rooms share.

Importing `silomq` imports none of this. Public names are loaded when they are first used, because
the store's own processes start without clients, and every import slows down a user's process.
"""
