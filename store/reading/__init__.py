"""Reading messages: by queue offset from a running store, or as columns."""
