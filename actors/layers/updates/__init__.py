"""Updates: another version of the tree for turns that begin from now on."""
