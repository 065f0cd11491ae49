"""What stores may be able to do besides what all have to: forget old data, archive, and keep schedules, usage and model calls."""
