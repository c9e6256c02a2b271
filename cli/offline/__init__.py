"""Commands that work on the files of a stopped store."""
