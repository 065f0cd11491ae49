"""Tools of an HTTP API that an OpenAPI document describes. Only `client` imports httpx, which the extra `openapi` installs."""
