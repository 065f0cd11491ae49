"""What Session actors over one store tell each other of the states that their sessions share."""
