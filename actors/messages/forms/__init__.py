"""Forms in which values travel, and are kept, that are not messages themselves."""
