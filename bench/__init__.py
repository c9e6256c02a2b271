"""Benchmarks: ratios against the machine's limits, measured in one run (`make bench`)."""
