"""Who learns of a change: executors, workers outside, brokers, signals."""
