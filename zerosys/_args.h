/* The common case of an argument: a small non-negative int, read without a call. */
#ifndef ZEROSYS_ARGS_H
#define ZEROSYS_ARGS_H

#include <Python.h>

/* The value of an int of one digit (below 2**30), or -1 for all else. */
static inline Py_ssize_t zs_small(PyObject *n)
{
    if (!PyLong_CheckExact(n))
        return -1;
#if defined(Py_LIMITED_API)
    return -1;
#elif PY_VERSION_HEX >= 0x030C0000
    return PyUnstable_Long_IsCompact((PyLongObject *)n) ? PyUnstable_Long_CompactValue((PyLongObject *)n) : -1;
#else
    Py_ssize_t digits = Py_SIZE(n);
    return digits == 1 ? (Py_ssize_t)((PyLongObject *)n)->ob_digit[0] : digits == 0 ? 0 : -1;
#endif
}

#endif
