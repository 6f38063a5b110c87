"""The jobs that an executor has acquired: their queue, and the threads that run them."""
