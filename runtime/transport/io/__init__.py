"""Direct connections: requests between processes over one stream per pair of them. Nothing in here knows Ray."""
