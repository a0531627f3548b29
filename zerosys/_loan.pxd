cdef class Loan:
    cdef Py_buffer source
    cdef object owner
    cdef Py_ssize_t exports
    cdef bint held
