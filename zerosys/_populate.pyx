"""Pages made to exist by threads that take no signals, while Ctrl-C is answered."""

from cpython.exc cimport PyErr_CheckSignals
from libc.string cimport memset

from zerosys._args cimport as_count
from zerosys._range cimport BASE_PAGE, rounded
from zerosys._result cimport fail

cdef extern from "_populate.h" nogil:
    const int ZS_CPU_WORDS
    const int ZS_MOST_THREADS
    struct zs_populate:
        size_t at, length, item, page
        int advice, pinned
        unsigned long *cpus
        size_t done
        int error, stop, running
    int zs_populate_next(zs_populate *job)
    void zs_populate_start(zs_populate *job, int threads)
    int zs_populate_wait(zs_populate *job, int ms)
    void zs_populate_stop(zs_populate *job)


# The longest a thread works without looking whether to stop: one madvise of 6 GiB took 17 s.
cdef size_t SLICE = 64 << 20


cdef int fill_cpus(zs_populate *job, object cpus) except -1:
    cdef Py_ssize_t cpu
    for number in cpus:
        cpu = as_count(number, "cpu")
        if cpu >= ZS_CPU_WORDS * 64:
            raise ValueError(f"cpu must be less than {ZS_CPU_WORDS * 64}, not {cpu}")
        job.cpus[cpu // 64] |= 1UL << cpu % 64
        job.pinned = 1
    return 0


cdef int run_job(zs_populate *job, int workers) except -1:
    """Populate with *workers* threads, or here for one; Ctrl-C stops them all."""
    cdef int more, ended = 0
    if workers > 1 or job.pinned:
        with nogil:
            zs_populate_start(job, workers)
        try:
            while ended < job.running:
                with nogil:
                    more = zs_populate_wait(job, 50)
                ended += more
                PyErr_CheckSignals()
        finally:
            with nogil:
                zs_populate_stop(job)
    while True:  # all of it, or what no thread could be had for
        with nogil:
            more = zs_populate_next(job)
        if not more:
            return 0
        PyErr_CheckSignals()


cdef int populate(size_t at, size_t n, size_t page, bint write, int workers, object cpus) except -1:
    """Make the pages of *n* bytes at *at* exist; see Mapping.populate."""
    cdef zs_populate job
    memset(&job, 0, sizeof(job))
    job.at, job.length, job.page = at, n, BASE_PAGE
    job.advice = MADV_POPULATE_WRITE if write else MADV_POPULATE_READ
    # Several items a thread, so that none waits long for the slowest; whole huge pages.
    job.item = max(min(SLICE, rounded(n // (4 * max(workers, 1)) + 1, 2 << 20)), page)
    if cpus is not None:
        fill_cpus(&job, cpus)
    try:
        run_job(&job, min(workers, ZS_MOST_THREADS))
        if job.error:
            fail(job.error, "madvise(MADV_POPULATE_WRITE)" if write else "madvise(MADV_POPULATE_READ)")
    except BaseException as error:
        error.populated = job.done
        raise
    return 0
