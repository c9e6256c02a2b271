"""The checks of a whole store, one file of the store at a time."""
