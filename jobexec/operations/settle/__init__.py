"""Settle runs: complete, fail, release, recover."""
