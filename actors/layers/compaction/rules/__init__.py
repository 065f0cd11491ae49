"""How much of a conversation is summarised, and when."""
