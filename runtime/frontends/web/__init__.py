"""Apps over HTTP. What programs import of it is in `runtime.web`."""
