"""The checks of a whole store, one index file, queue or log file at a time."""
