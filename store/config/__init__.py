"""RocketMQ's `config/*.json`: topics, consumer offsets, subscription groups, delay offsets.

RocketMQ writes them with fastjson, a dialect that plain JSON parsers refuse; `fastjson.py` reads
and writes it. A file is replaced as a whole, durably, and the one before stays as `NAME.bak`. A
file that cannot be read falls back to it, and the log says so. Fields that mean nothing here are
written back as they were.
"""
