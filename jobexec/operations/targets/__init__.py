"""Which rows a caller means."""
