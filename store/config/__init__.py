"""RocketMQ's `config/*.json`: topics, consumer offsets, subscription groups, delay offsets.

RocketMQ writes them with fastjson, in a dialect that plain JSON parsers refuse; `fastjson.py` reads
and writes it. A file is replaced as a whole, durably, and its previous state stays as `NAME.bak`.
If a file is unreadable, its backup is loaded, and the log says so. In the files of consumer groups,
fields and entries that the store does not know are kept.
"""
