"""Which model calls are recorded, and in which form: requests in parts, and texts that are masked."""
