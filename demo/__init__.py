"""`make demo`: real flights in an Iceberg table, and four batches of their changes. Begin with `run`."""
