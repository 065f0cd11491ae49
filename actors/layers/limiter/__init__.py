"""Limits of models: the actor that grants permits for model calls, its clients in agents' processes, and the rules."""
