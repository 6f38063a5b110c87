"""Clients of the gateways, and the external workers that gateways have seen."""
