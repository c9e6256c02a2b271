"""Results: one JSON file for each `silo bench run`, and what is made from such files."""
