"""The index files: from `topic#key` to offsets of the commit log."""
