"""The data that actors send each other and store."""
