"""Jobs in each of their tables, their keys and locks."""
