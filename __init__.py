"""SiloMQ: RocketMQ's message store as a family of processes over shared memory."""
