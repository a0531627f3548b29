"""The same calls through ctypes: the referee that shares no code with zerosys."""

import ctypes

_LIBC = ctypes.CDLL(None, use_errno=True)
NONBLOCK = 2
COUNT = 5


class _Buffer(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def _outcome(call: str, *arguments) -> int:
    function = _LIBC[call]
    function.restype = ctypes.c_ssize_t
    ctypes.set_errno(0)
    result = function(*arguments)
    return -ctypes.get_errno() if result < 0 else result


def splice(src: int, dst: int) -> int:
    return _outcome("splice", src, None, dst, None, ctypes.c_size_t(COUNT), NONBLOCK)


def tee(src: int, dst: int) -> int:
    return _outcome("tee", src, dst, ctypes.c_size_t(COUNT), NONBLOCK)


def sendfile(src: int, dst: int) -> int:
    return _outcome("sendfile64", dst, src, None, ctypes.c_size_t(COUNT))


def copy_file_range(src: int, dst: int) -> int:
    return _outcome("copy_file_range", src, None, dst, None, ctypes.c_size_t(COUNT), 0)


def vmsplice(fd: int, memory: bytearray) -> int:
    view = (ctypes.c_char * len(memory)).from_buffer(memory)
    buffer = _Buffer(ctypes.addressof(view), len(memory))
    return _outcome("vmsplice", fd, ctypes.byref(buffer), ctypes.c_size_t(1), NONBLOCK)
