"""The Ray that a program starts for itself, with fewer processes and fewer imports than `ray.init` starts."""
