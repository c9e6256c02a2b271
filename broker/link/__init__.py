"""The broker's session with the store: sending, reading, topics, and the progress of groups.

A broker is a client of the store like any producer and consumer. It writes nothing of the store but
its ring, its own ack files and its board. Requests to the registry may block, so a thread makes
them (`broker/loop/tasks.py`); what is in shared memory is read at once.

When the store stops or dies, what waits is answered with SERVICE_NOT_AVAILABLE: RocketMQ's clients
send it again. The broker keeps its connections, and opens a new session when the store is back.
"""
