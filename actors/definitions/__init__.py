"""What users write: agents, tools and flows, and the tree that is made of them."""
