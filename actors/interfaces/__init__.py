"""The seams between what an actor decides and what makes it live."""
