"""The store's files and tables: RocketMQ's formats, and the code that reads and writes them.

Each format has a package (`record`, `commitlog`, `consumequeue`, `index`, `config`, `topics`,
`groups`, `delay`), and so has each task (`dispatch`, `reading`, `retention`, `recovery`,
`filters`). Code in this package starts no process and waits for none. Names, sizes and bytes of
files are RocketMQ's. The store's additional files lie below `silomq/` in its folder, which RocketMQ
does not read (`disk/paths.py` has the names).
"""
