"""Files beside the code: those of clusters, and locks."""
