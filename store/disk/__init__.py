"""Everything that touches the operating system: files, their names, and the recorder for tests."""
