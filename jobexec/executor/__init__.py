"""What runs: loops, threads, processes. Nothing here starts by itself."""
