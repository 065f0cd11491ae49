"""Tests against a server of someone else's making: litellm's proxy, in an environment of its own. `make test-models` makes it,
and says with LITELLM where the proxy is; without it these tests are skipped.

The proxy takes Chat Completions and Messages, and passes them on to a scripted service in Gemini's form, so that each request and
each stream goes through its conversions in both directions.
"""
