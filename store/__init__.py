"""The store's files and tables: RocketMQ's formats, and the code that reads and writes them.

A room for each format (`record`, `commitlog`, `consumequeue`, `index`, `config`, `topics`,
`groups`, `delay`), and rooms for what is done with them (`dispatch`, `reading`, `retention`,
`recovery`, `filters`). Code in this package decides and does; it starts no process and waits for
none. Sizes, names and bytes of files are RocketMQ's. What is ours beside them lies below `silomq/`
in the store's folder, where RocketMQ does not look (`disk/paths.py` has every name).
"""
