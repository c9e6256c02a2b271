"""Offline tools over a store's files: dump, verify, repair (docs/tools.md). Only repair writes.

`raw` opens the files as they are and walks the log record by record, damage included. `rocketmq`
computes in memory what RocketMQ would find after its own recovery. `verify` checks every file
against the others.
`holes` finds what a log has lost, and goes on without it.
"""
