"""The processes that produce and consume: `protocol.py` has what they are told and what they tell.

`worker.py` is the program that clients in Python share, `client.py` what a client must do for it.
`producing.py` and `consuming.py` are its loops, `account.py` keeps what happened in a second, and
`bodies.py` has the messages ready before the start. A loop only appends a number to an array for
each message. A second process (`recorder.py`) makes histograms of the arrays (`latencies.py`), so
that the loop never stops for it.
"""
