"""Makes the actors live: the driver, the engines, the stores and the models."""
