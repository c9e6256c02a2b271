"""Sending: `Producer`, the record encoder, and the producer's side of a ring."""
