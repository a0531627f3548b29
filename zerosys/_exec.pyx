"""execvpe(3): become another program, as it would have been started without Python."""

from libc.stdlib cimport free, malloc

from zerosys._result cimport fail


cdef extern from "_exec.h" nogil:
    ssize_t c_execvpe "zs_execvpe"(const char *file, char **arguments, char **environment)


cdef char **strings(list items) except NULL:
    """The items as C has them, NULL at the end; *items* has to be kept meanwhile."""
    cdef Py_ssize_t n = len(items), i
    cdef bytes item
    cdef char **made = <char **>malloc((n + 1) * sizeof(char *))
    if made is NULL:
        raise MemoryError(f"no memory for {n} strings")
    try:
        for i in range(n):
            item = items[i]
            if 0 in item:
                raise ValueError(f"a program takes no NUL byte, unlike {item!r:.100}")
            made[i] = item
        made[n] = NULL
    except BaseException:
        free(made)
        raise
    return made


def execvpe(file, arguments, environment):
    """Become the program *file*, looked for in PATH unless it has a slash; does not return.

    *arguments*, its own name first, and *environment* are sequences of bytes, the latter
    NAME=value. SIGPIPE and SIGXFSZ, which Python ignores, are at their default again; all
    else a program inherits is left as it is. Raises OSError, with the signals as they
    were: ENOENT (no such program), EACCES (not executable), E2BIG. See exec(3).
    """
    cdef list words = list(arguments), variables = list(environment)
    cdef bytes name = file
    cdef char **argv = NULL
    cdef char **environ = NULL
    cdef ssize_t rc
    if 0 in name:
        raise ValueError(f"a program's name has no NUL byte, unlike {name!r:.100}")
    try:
        argv = strings(words)
        environ = strings(variables)
        rc = c_execvpe(name, argv, environ)
        fail(rc, "execvpe")
    finally:
        free(argv)
        free(environ)
