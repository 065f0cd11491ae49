"""Deployments on Ray. Only this package imports Ray."""

import logging

# In notebooks Ray recommends ipywidgets when it is imported, for a display of its own that is not used here.
logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)
