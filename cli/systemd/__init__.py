"""`silo systemd`: writes the units of a store for this machine, or for one user, and removes them.

`unit_files` makes the texts from the templates of `conf/`. `installed_files` writes them. Each has
a first line with a checksum, which tells a file as it was written from one that somebody changed.
"""
