"""What requests of several services have in common, as JSON. Pure: no SDK, no clock, no socket."""
