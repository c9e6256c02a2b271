"""What a user's process imports: producer, consumer, admin."""
