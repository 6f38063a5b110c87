"""The same work in plain SQL, to measure against."""
