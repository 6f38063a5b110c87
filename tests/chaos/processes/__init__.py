"""The processes of a run: `chaos.bpmn` and the flows in `flows`, the handlers of both in `jobs`, and in `expected` what
their instances must have done when they end."""
