"""Times of schedules."""
