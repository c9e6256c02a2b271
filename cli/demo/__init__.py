"""`make demo`: a tour on real data."""
