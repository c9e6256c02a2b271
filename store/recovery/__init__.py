"""What a start does with what an earlier run left, and the records that tell it."""
