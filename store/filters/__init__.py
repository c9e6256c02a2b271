"""Message filters of subscriptions: tag expressions and SQL92.

A tag expression is tested twice: first the hash in the queue entry, without the record, and then
the tag itself, because tags may share a hash. An SQL92 expression is tested against the record's
properties. Both tests run in the consumer's process.

The store has its own SQL92 parser. It compiles an expression to closures, and bounds length and
depth, because expressions come from clients. Values behave as in RocketMQ: a property that should
be a number but is not makes the whole expression false. One rule differs: NOT applies to the whole
comparison behind it.
"""
