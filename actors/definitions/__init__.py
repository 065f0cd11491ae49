"""What users write: agents, tools and flows; and the tree that consists of them."""
