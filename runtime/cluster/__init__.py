"""Deployments on Ray. Only this package imports Ray."""

import logging
import sys

from runtime.cluster.ray.local.worker_start import import_light_ray

# In notebooks Ray recommends ipywidgets when it is imported, for a display of its own that is not used here.
logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)

if "ray" not in sys.modules:
    # A program that has Ray for agents waits for its import: a third less.
    import_light_ray()
