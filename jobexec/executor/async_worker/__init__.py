"""The event loop on which async handlers run."""
