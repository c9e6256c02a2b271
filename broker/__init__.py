"""RocketMQ's remoting protocol. So far the wire itself, which the name server uses."""
