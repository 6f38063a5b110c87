"""What an executor has acquired: its queue, and the threads that take from it."""
