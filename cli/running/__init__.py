"""Commands that run a store or talk to a running one."""
