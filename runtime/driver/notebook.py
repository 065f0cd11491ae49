"""Whether code runs in a cell of a notebook. IPython is not imported: where there is a notebook, it is loaded."""

from __future__ import annotations

import sys
import threading


def is_notebook() -> bool:
    """True in a process that is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def is_cell() -> bool:
    """True in the thread that runs the cells of a notebook.

    An event loop runs there, but a cell holds it anyway until it is done, and no turn needs it: a cell may wait. Other loops of
    the process, of a server in a thread for instance, are not the notebook's.
    """
    return is_notebook() and threading.current_thread() is threading.main_thread()
