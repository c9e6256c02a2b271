"""Fixtures for pytest: a broker for RocketMQ's clients, with topics and groups of each test's own.

`fixtures.py` is a plugin that pytest loads by itself where silomq is installed. It imports next to
nothing and starts nothing until a test asks for a fixture. With pytest-xdist each worker is a
session, so each has a broker of its own: 0.1 GiB of memory.
"""
