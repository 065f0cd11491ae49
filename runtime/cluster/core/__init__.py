"""The processes of Session actors, Runners and the limiter: their names, how they are built, and standbys in their place."""
