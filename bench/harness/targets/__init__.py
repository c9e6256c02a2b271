"""Servers that can be measured: `target.py` says what each of them must do."""
