"""How tables of older versions become those of this one."""
