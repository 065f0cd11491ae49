"""Commands that give a deployment another tree."""
