"""What expires, and its removal."""
