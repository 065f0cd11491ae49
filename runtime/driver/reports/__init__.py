"""Reports of a turn beside its state: what its agents have logged, which edges it took, and its tasks."""
