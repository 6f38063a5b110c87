"""The calls about processes of Camunda 8's REST API, version 2."""
