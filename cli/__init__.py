"""The `silo` command: `main.py` runs a subcommand and turns every error into one sentence and an
exit status.
"""
