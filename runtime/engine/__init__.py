"""What the engines have in common, and the engine that runs in the calling process."""
