"""Shared by the pages of all tables."""
