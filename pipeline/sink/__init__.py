"""The data source `silomq`: writing rows as messages."""
