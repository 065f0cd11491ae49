"""What programs of all versions of raygrove can read of a deployment, without a word to its actors."""
