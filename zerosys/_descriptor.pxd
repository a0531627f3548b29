"""Descriptors that have an owner from the moment they exist."""

cdef class Descriptor:
    cdef int fd  # -1: closed
