"""Workloads: TOML files that say what is sent, how fast, and to whom.

`workload.py` has every key of such a file with its type and its bounds. `values.py` has the forms
of times, sizes and rates. `load.py` reads a file, changes keys (`--set`), and makes the steps of a
sweep. `draw.py` draws sizes and makes the bytes of bodies. `openmessaging.py` reads a workload of
OpenMessaging Benchmark. The shipped workloads lie beside them, and `shipped.py` finds them.
"""
