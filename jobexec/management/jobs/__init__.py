"""``manage.py jobs``: what an operator does at a terminal or in a script. One small file for each group of actions."""
