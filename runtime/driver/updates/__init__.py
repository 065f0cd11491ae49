"""A deployment gets another tree while it runs."""
