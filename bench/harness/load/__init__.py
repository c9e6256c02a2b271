"""The processes that produce and consume: `protocol.py` has what they are told and what they tell.

`worker.py` is the program that clients in Python share, `client.py` what a client must do for it.
`producing.py` and `consuming.py` are its loops, `account.py` keeps what happened in a second, and
`bodies.py` has the messages ready before the start. What is done for each message is compiled:
`_loops.pyx` sends, `_fates.pyx` takes what became of messages under way, `_arrivals.pyx` takes what
was read, and `_counts.pyx` counts latencies. Once a second the counts become a text
(`latencies.py`) in some 50 us, and a line of the worker's output (`output.py`).
"""
