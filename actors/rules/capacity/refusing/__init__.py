"""Rules of what programs and servers refuse by themselves, so that it is not asked for in vain."""
