"""Flows: the controller, and the rounds in which agents work on tasks."""
