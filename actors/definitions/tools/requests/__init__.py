"""Tools that models do not call: they change the requests of their agent."""
