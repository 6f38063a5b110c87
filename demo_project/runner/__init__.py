"""What `manage.py demo` is made of: starts a database and the demo's processes, watches them, and stops them.

No jobexec in here, and no ORM: the command runs before there is a database. Its children use both.
"""
