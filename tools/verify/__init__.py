"""The check of a whole store, which reads each file once, in three steps.

1. The survey of each queue and index file looks at the file alone: do entries ascend, are chains
   right, which log addresses are there.
2. The check of the log reads all records, in pieces of files. Each record is compared with its
   queue entry and its index entries, and these are counted.
3. A queue or an index file all of whose entries were counted is sound. Any other one gets a full
   check, which looks up the record of each entry and says what is wrong.

- **Compiled code confirms, Python explains.** The kernels (`_log.pyx`, `_queue.pyx`, `_index.pyx`)
  pass over what is good in every respect, and return at anything else. Python decodes that place
  and decides. So each finding has one owner, and a kernel that is too strict costs time only. A
  twin in plain Python (`tests/support/plain_verify.py`) finds the same in stores with damage of
  many kinds. Kernels that report findings themselves would be a second copy of every rule.
- **Counting instead of looking up.** An entry belongs to one record, and a record to one entry. If
  as many entries were right for their records as a file has, each leads to its record. A look-up of
  the record of each entry would read the log once more for every queue.
- **Memory.** It does not grow with the log. A thread has 4 bytes for each slot of an index file
  (20 MB by default) and about 150 bytes for each queue. Mapped files are page cache. Only if the
  index lacks a record, the addresses that it has of one piece of the log are read: 8 bytes each, at
  most 12 MB for records of 90 bytes.
- **Threads.** The kernels release the interpreter's lock, so threads use all cores. Processes would
  need half of the time of a small store to begin and to end, and could not share the facts.
- **Pieces.** A piece of 128 MiB of the log begins where a record seems to begin. The piece before
  must end there; otherwise the file is checked as one piece.
- **Seals.** The checksum of a sealed file is computed on the way, while its bytes are in the CPU's
  caches, and that of the file from those of its pieces.
"""
