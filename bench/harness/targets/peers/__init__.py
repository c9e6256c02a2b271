"""Other message stores, measured by the same rules (`make bench-peers` installs them).

What an acknowledgement promises is the level of `targets.Durability`, by `Wanted.flush`.

| target | level, async | level, sync | installed from |
|---|---|---|---|
| `rocketmq-store-5`, `-4` (4.9.8) | system memory; pool: process memory | disk | Maven Central |
| `rocketmq-broker` | system memory; pool: process memory | disk | Maven Central |
| `kafka` | system memory (acks=all) | disk (a flush each message) | Maven Central, PyPI |
| `redis` | process memory (everysec) | disk (always) | Debian, PyPI |
| `nats` | system memory | disk (sync_interval: always) | Go modules, PyPI |
| `chronicle` | system memory | disk (a sync behind each append) | Maven Central |
| `sqlite` | system memory (NORMAL) | disk (FULL) | Python has it |

All of them can be had. What is left out, and what the figures do not say:

- The store of RocketMQ runs in process, as Chronicle Queue and SQLite do. The broker is release
  5.3.3 with its client in Java: of 4.9.8 no broker is published with what it needs.
- Redis has the version of the Debian that it is fetched from, because old ones do not stay there.
- With `appendfsync everysec` Redis puts off its write for up to two seconds while an earlier sync
  is under way, and answers meanwhile. The setting `appendfsync = "no"` never does so, and counts
  as system memory.
- SQLite and Chronicle Queue have no asynchronous call, and nats-py has none for a batch. One-way
  sends are left out where a client has none.
- A reader of a store in a JVM that finds nothing looks again after 50 us, one of SQLite after
  0.5 ms. The others wait for the server.
- A store in Java has a JVM with a heap of 1 GiB, and its workers are threads there:
  `java_host.py`.
- The records of a peer carry the tag and the key of a message, as headers or fields of it.
"""
