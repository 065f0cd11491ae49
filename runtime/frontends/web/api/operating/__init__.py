"""What operators see and do over HTTP: figures, usage, and what models were asked."""
