"""A turn that runs in a Runner, as data: its runs, its spans, and how it came here."""
