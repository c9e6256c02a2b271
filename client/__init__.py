"""What a user's process imports. `session.py` is the connection to a store that all of it shares.

Importing `silomq` imports none of this: public names are loaded when they are first asked for,
because the store's own processes start without clients, and a user's process pays for every import.
"""
