"""Gateways for workers outside Django: REST and gRPC."""
