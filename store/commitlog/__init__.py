"""The commit log: its files, the append and scan kernels, its end, and seals of full files."""
