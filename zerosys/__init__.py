"""Linux's zero-copy calls and NUMA placement, composed into shared memory that lies where you asked."""

from importlib import import_module as _import_module
from os.path import dirname as _dirname

__version__ = "0.1.0"

# Each public name and the module it comes from, which is imported when the name is first asked for.
_HOME = {
    "copy_file_range": "_splice",
    "linkat": "_splice",
    "pipe_capacity": "_splice",
    "pipe_occupancy": "_splice",
    "sendfile": "_splice",
    "set_pipe_capacity": "_splice",
    "splice": "_splice",
    "tee": "_splice",
    "vmsplice": "_splice",
}

__all__ = ["__version__", "get_include", *_HOME]


def get_include() -> str:
    """Return the folder of the C headers, for an extension that cimports zerosys.

    Give it as include_dirs. Cython itself finds the ``.pxd`` files on sys.path.
    """
    return _dirname(__file__)


def __getattr__(name: str) -> object:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = globals()[name] = getattr(_import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
