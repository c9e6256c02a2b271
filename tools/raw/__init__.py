"""The files of a store as they are: opened for reading only, and walked record by record."""
