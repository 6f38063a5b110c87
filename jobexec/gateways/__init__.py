"""Through which workers outside of Django reach their jobs: REST and gRPC."""
