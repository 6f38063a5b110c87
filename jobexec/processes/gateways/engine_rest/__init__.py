"""The calls about processes of Camunda 7's REST API."""
