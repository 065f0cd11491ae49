"""How people and programs reach apps: a command, a service, tests, evaluations. No other room of `runtime` imports it."""
