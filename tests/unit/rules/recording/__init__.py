"""Rules of recording."""
