"""What operators read and change of a deployment: usage and prices, schedules, descriptions of turns."""
