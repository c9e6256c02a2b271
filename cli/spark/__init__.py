"""`silo spark`: bulk jobs over one store or many."""
