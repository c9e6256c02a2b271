"""What the broker does for each request code. Each module is named after RocketMQ's processor of
that part, and offers a class whose `handlers` maps request codes to coroutines.
"""
