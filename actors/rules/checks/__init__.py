"""What may enter: ids, sizes, messages, state and model answers."""
