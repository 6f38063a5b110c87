"""The REST gateways: Camunda 8's /v2 and Camunda 7's external tasks."""
