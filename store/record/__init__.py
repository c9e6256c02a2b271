"""One message's bytes: the record, its properties, its ids and checksums."""
