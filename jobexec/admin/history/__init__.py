"""The history of jobs: log, incidents, results, failure groups, the audit log."""
