"""The topic table in shared memory: topics, queues, grants, deletions."""
