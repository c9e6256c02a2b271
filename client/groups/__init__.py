"""Reading as a member of a consumer group: `GroupConsumer`, `Listener`, what they subscribe to."""
