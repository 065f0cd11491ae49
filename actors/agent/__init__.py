"""An agent's actor: it runs the behaviour of one agent for any number of sessions."""
