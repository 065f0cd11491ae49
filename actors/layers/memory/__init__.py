"""The memory of an app's users: texts of sessions, kept beyond their logs and found again by words."""
