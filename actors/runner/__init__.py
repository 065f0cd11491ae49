"""The Runner actor: it opens turns, dispatches agents and routes transfers."""
