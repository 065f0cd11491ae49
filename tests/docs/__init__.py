"""The documentation: its code blocks run, its links lead somewhere, and its tables say what the code says."""
