"""Clients of the gateways, and the workers that were seen."""
