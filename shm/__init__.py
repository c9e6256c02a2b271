"""Memory shared by processes: mappings, words, the control block, rings."""
