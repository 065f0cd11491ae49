"""Forks of a process that uses Ray: they have none of Ray's threads, but all of its objects, and sockets that both would use.

Nothing of Ray may be called in a fork, and nothing of it may be destroyed there either. At the end of its interpreter, Ray would
shut down the cluster of the process that it was forked from, or wait for threads that it does not have, or crash.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys

import ray

from runtime.cluster.ray.process import detach


class Forks:
    """Keeps forks of this process from harming it.

    Attributes:
        is_fork: this process is a fork of one that used Ray, and cannot use Ray itself.
    """

    is_fork = False

    @classmethod
    def cut_off(cls) -> None:
        """Cut a fork, as it begins, off from Ray."""
        if not ray.is_initialized():
            return
        cls.is_fork = True
        detach()
        atexit.unregister(ray.shutdown)
        gc.freeze()
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "ray":
                for value in list(vars(module).values()):
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
        _skip_destructors()


def _skip_destructors() -> None:
    """Have the process end without the destructors of Ray's C++ objects, and with the status that it would have had."""
    libc = ctypes.CDLL(None)
    # Only glibc has a handler that gets the exit status.
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)


os.register_at_fork(after_in_child=Forks.cut_off)
