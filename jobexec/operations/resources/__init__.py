"""Resources: limit the jobs that share one, and let blocked jobs run in turn."""
