"""What members of consumer groups have acknowledged."""
