"""Routes: the broker is its own name server, and registers with others.

A client whose name-server address is the broker's finds all that it needs there. With
`name_servers` set, the broker registers with each of them, RocketMQ's or `silo names`: every 30 s,
and at once when a topic is made.
"""
