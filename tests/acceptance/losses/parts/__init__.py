"""Parts of the trees of which actors are lost."""
