"""One store for many machines: the same tables on a PostgreSQL server. Loaded only where a URL asks for it."""
