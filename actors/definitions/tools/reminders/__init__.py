"""The toolset with which agents remind their users."""
