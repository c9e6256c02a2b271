"""Typed settings, logging, and the systemd unit.

`schema.py` is the table of settings: a field, its kind, its default and the reason for it.
`relations.py` says what settings must be to each other. `settings.py` is the face: it reads the
TOML file, the environment and `--set`, and every `Settings` that it makes is legal.
"""
