"""Processes of the demo: three BPMN files and a flow written in Python. `services.py` starts and drives them."""
