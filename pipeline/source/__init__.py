"""The data source `silomq`: reading stores in batches and streams."""
