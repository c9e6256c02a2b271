"""Look-ups in a running store: `StoreReader`."""
