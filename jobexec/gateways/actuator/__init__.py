"""Monitoring endpoints of a gateway: metrics, streams, health (Zeebe: port 9600)."""

from .server import serve_metrics

__all__ = ["serve_metrics"]
