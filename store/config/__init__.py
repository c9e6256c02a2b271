"""RocketMQ's `config/*.json`: topics, consumer groups, offsets."""
