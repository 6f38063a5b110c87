"""The operations of people on jobs."""
