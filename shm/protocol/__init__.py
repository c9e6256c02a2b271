"""All messages on the store's sockets as typed structs: clients' requests, the registry's answers,
and messages about sessions between the store's processes.
"""
