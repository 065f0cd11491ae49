"""Evaluation sets, as of ADK: conversations with expected tool calls and answers, run on a Runtime and scored."""
