"""Processes: BPMN files and flows written in Python, run by one engine whose activities are jobs.

``definition`` describes a process and ``engine`` moves its tokens. Both are pure Python: they know neither Django nor
the rest of jobexec.
"""
