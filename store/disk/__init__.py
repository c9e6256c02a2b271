"""The store's access to the operating system: files, their names, and a recorder for tests.

`files.py` is the only module that opens, maps, syncs, renames or removes anything below a store's
folder. Files are opened below the descriptor of their folder and never through a symbolic link, so
no name from a client leads out of the store. Tests inject faults here. `recording.py` records every
operation that decides which bytes a power cut can take back, and the simulator of power cuts
(`tests/power`) builds its disk images from these records.

Decisions about the kernel that are made here and nowhere else:

- **A group of readers.** The set-group-id bit of folders gives `socket_group` to all that is made
  in a store. At each start `sharing.py` walks over the whole folder, because RocketMQ or a run
  without the setting may have made files that the group cannot read. A mark that all is shared
  would save the walk, but it would lie after such a run.
- **Space first.** `posix_fallocate` takes the space of a file before the file is mapped. A full
  disk is an error that an actor can report, never a SIGBUS.
- **Small folios of the commit log** (`in_small_folios`, by `MADV_RANDOM`). A store through a
  mapping makes a whole page-cache folio dirty, and read-ahead makes folios of up to 2 MiB. With
  4 KiB a sync writes the appended bytes and little else. The kernel takes no core away while it
  makes a folio: 2 MiB take half a millisecond, and five where a host gives the memory page by page.
- **Folios of 2 MiB for a fast append** (`in_large_folios`). They take less time for each byte,
  and readers have a hundredth of the page faults. From 256 MiB/s on that counts more
  (`store/commitlog/ahead.py`). Without either, a fault reads as much ahead as the disk wants: 8 MiB
  of zeros took 10 ms on some. Under SYNC_FLUSH append does not store through its mapping
  (`store/commitlog/staging.h`), and a large folio would cost each write a walk over 512 blocks.
- **Syncs of ranges.** A warmed file is dirty to its end. `sync_range` (msync) makes a range durable
  without the rest.
- **A large flush in pieces.** The kernel does not preempt itself while it writes pages back, and a
  few MiB keep a core for milliseconds. `write_back` starts the writing 64 KiB at a time and yields
  the core after each piece; the sync that follows has little left to do.
- **No zeros read ahead.** Windows of consume queues are mapped with `MADV_RANDOM` (`shape_small`):
  a first fault would otherwise read up to 8 MiB of zeros into the page cache, for every queue.
"""
