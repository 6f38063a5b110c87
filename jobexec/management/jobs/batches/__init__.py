"""jobs batches."""
