"""From the commit log into consume queues and index."""
