"""The processes of a store, one file each."""
