"""The processes in which agents live: activation, passivation, spare processes, placement on nodes."""
