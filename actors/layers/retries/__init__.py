"""Running a turn again: after a failure, or from a step of it."""
