"""Acquisition: select the jobs that an executor gets, and lock them."""
