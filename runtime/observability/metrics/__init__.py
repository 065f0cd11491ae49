"""What is measured: the catalogue of histograms, values in buckets, and the figures of actors. Three exporters read them."""
