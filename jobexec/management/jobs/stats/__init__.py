"""jobs stats and top."""
