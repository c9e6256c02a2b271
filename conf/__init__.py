"""Typed settings, logging, and the systemd unit.

`schema.py` is the table of settings: field, kind, default, and the reason for the default.
`relations.py` checks values against each other. `settings.py` is what other packages import: it
reads the TOML file, the environment and `--set`, and every `Settings` that it makes is valid.
"""
