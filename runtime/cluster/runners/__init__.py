"""The processes of Runners: one of each, or one that leads and one that stands by."""
