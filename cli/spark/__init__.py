"""`silo spark`: bulk jobs."""
