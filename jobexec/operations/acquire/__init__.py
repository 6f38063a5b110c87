"""Which jobs an executor gets, and their locks."""
