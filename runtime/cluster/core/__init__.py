"""The processes of Session actors and Runners: one of each, or one that leads and one that stands by."""
