"""Jobs in all their tables, their keys and locks."""
