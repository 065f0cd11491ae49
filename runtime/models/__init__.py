"""Language models behind their own SDKs."""
