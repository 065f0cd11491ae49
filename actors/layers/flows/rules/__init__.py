"""The tasks of a flow, and the order in which agents work on them."""
