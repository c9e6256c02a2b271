"""A store as RocketMQ would find it after its own recovery, worked out without writing."""
