from zerosys._splice import copy_file_range as copy_file_range
from zerosys._splice import linkat as linkat
from zerosys._splice import pipe_capacity as pipe_capacity
from zerosys._splice import pipe_occupancy as pipe_occupancy
from zerosys._splice import sendfile as sendfile
from zerosys._splice import set_pipe_capacity as set_pipe_capacity
from zerosys._splice import splice as splice
from zerosys._splice import tee as tee
from zerosys._splice import vmsplice as vmsplice

__version__: str
__all__ = [
    "__version__",
    "copy_file_range",
    "get_include",
    "linkat",
    "pipe_capacity",
    "pipe_occupancy",
    "sendfile",
    "set_pipe_capacity",
    "splice",
    "tee",
    "vmsplice",
]

def get_include() -> str: ...
