"""How tables that an earlier release has made become those of this one."""
