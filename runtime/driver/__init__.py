"""What a program holds: the Runtime, its turns and its services."""
