"""URLs of the token endpoint, included as ``oauth/``."""

from django.urls import path

from .token_endpoint import token

urlpatterns = [path("token", token, name="jobexec-gateway-token")]
