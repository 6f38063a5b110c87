"""The end of a run: complete, fail, release, recover."""
