"""The files and the tables: RocketMQ's formats, and what runs over them."""
