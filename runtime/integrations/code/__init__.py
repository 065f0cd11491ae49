"""The tool that runs a model's Python in a process of its own."""
