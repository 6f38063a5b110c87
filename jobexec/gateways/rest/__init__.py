"""The gateways over HTTP: Camunda 8's /v2 and Camunda 7's external tasks."""
