"""LLM agents: the step loop of model calls and tool calls."""
