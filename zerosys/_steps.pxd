"""Steps of a transfer for event loops, for nogil code: see _steps.h."""

from zerosys._transfer cimport transfer, transfer_path

cdef extern from "_steps.h" nogil:
    enum:
        WANT_PIPE "ZS_WANT_PIPE"

    struct steps "zs_steps":
        transfer *t
        int parked
        transfer_path planned
        int stop

    ssize_t c_park "zs_park"(steps *s)
    ssize_t c_precede "zs_precede"(steps *s, const void *bytes, size_t n)
    int c_turn "zs_turn"(steps *s)
    int c_long_turn "zs_long_turn"(steps *s)
