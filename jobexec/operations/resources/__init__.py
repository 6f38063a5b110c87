"""Resources: who may run now of the jobs that share one."""
