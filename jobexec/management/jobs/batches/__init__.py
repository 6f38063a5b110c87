"""``jobs batches``."""
