"""Skills: folders of instructions and files that an agent reads when it needs them."""
