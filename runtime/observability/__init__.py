"""What a deployment tells of itself: spans, metrics and logs."""
