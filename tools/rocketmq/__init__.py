"""A store as RocketMQ would find it after its own recovery, computed without writing."""
