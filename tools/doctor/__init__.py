"""`silo doctor`: looks at a machine and at one store's place on it, and says what to do.

Nothing is changed, and nothing is written to the disk: a check that would have to write is not made
here. So it may run beside a store, and for a store that does not exist yet. `doctor.py` makes all
checks, `findings.py` is what each one says. A check that cannot look (for want of rights, or
because a container hides something) says so as a warning, and never counts as passed.

**Which store is alive** (`stores.py`). The processes of a store map its shared memory for writing,
and its clients read-only. So a store is alive if some process has such a mapping. The process title
would not tell: it is set when recovery is over.
"""
