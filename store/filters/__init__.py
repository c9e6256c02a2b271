"""Which messages a subscription wants: tag expressions and SQL92.

A tag expression is judged twice: by the hash in the queue entry, without a look at the record, and
then exactly, because tags may share a hash. An SQL92 expression is judged by the record's
properties. Both run in the consumer's process.

The SQL92 parser is ours. It compiles an expression to closures and bounds length and depth, because
expressions come from anybody. Values behave as in RocketMQ: a property that should be a number and
is none makes the whole expression false. One thing differs: NOT takes in the comparison behind it.
"""
