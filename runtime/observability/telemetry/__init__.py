"""Telemetry over OpenTelemetry's API. The SDK is the program's, or that of the extra `raygrove[otel]`."""
