"""`raygrove schedules`."""
