"""What every engine has in common, and the engine that lives in the calling process."""
