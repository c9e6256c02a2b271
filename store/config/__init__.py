"""RocketMQ's `config/*.json`: topics, consumer offsets, subscription groups, delay offsets.

RocketMQ writes them with fastjson, in a dialect that plain JSON parsers refuse; `fastjson.py` reads
and writes it. A file is replaced as a whole, durably, and its previous state stays as `NAME.bak`.
Fields and entries that the store does not know are kept.

**Bad files.** If a file is unreadable, its backup is loaded. A single value that cannot be right
comes from the backup, or is left out: it costs no other value. The log and the report of the start
say so, and the bad file stays as `NAME.bad-TIME` beside the next one. A start refuses a file that
is unreadable together with its backup, because an empty state would lose what can be repaired. The
alternative, to start without it, would take groups back to their first messages.
"""
