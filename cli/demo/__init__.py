"""`make demo`: real flights sent through a store, with one process killed half-way."""
