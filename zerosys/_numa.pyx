"""NUMA policy, page placement and pinning: one Python call, one kernel or libnuma call.

Addresses and lengths are ints; a node is 0 to 1023, a set of nodes any iterable of
them. Policies of a thread hold for the calling thread only.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport PyObject
from libc.errno cimport EAGAIN, EINVAL, EIO, ENOENT, ENOSYS
from libc.string cimport memcmp, memset
from posix.unistd cimport _SC_PAGESIZE, sysconf

from zerosys._args cimport as_bits, as_count, as_int
from zerosys._result cimport fail, interrupted, or_errno

cdef extern from "<sys/mman.h>" nogil:
    int mincore(void *address, size_t length, unsigned char *resident)


cdef extern from *:
    """
    /* libnuma's two ways to speak. Defined here and visible, they take the place of its own
     * weak ones, which write to stderr and may exit. A libnuma that something else loaded
     * first keeps its own: so no call below is made that would reach them. */
    #pragma GCC visibility push(default)
    void numa_error(char *where) { (void)where; }
    void numa_warn(int number, char *format, ...) { (void)number, (void)format; }
    #pragma GCC visibility pop
    """

cdef extern from "Python.h":
    frozenset PyFrozenSet_New(PyObject *members)
    int PySet_Add(frozenset nodes, object node) except -1


cdef enum:
    CHUNK = 4096  # pages a call: 0.4 ms of work between two looks at signals
    STATUS_MIN = -4095  # the lowest -errno


cdef frozenset NO_NODES = frozenset()


cdef int as_node(object node, str name) except -1:
    cdef Py_ssize_t value = as_count(node, name)
    if value >= NODES_MAX:
        raise ValueError(f"{name} must be 0 to {NODES_MAX - 1}, not {value}")
    return <int>value


cdef int fill(node_mask *mask, object nodes) except -1:
    """Make *mask* the set of *nodes*: the one builder behind every call."""
    memset(mask, 0, sizeof(node_mask))
    for node in nodes:
        c_mask_add(mask, as_node(node, "node"))
    return 0


cdef frozenset members(node_mask *mask):
    cdef frozenset nodes
    cdef long node = c_mask_next(mask, 0)
    if node < 0:
        return NO_NODES
    nodes = PyFrozenSet_New(NULL)
    while node >= 0:
        PySet_Add(nodes, node)  # allowed while nobody else has seen it
        node = c_mask_next(mask, node + 1)
    return nodes


def set_mempolicy(mode, nodes=()):
    """Set the calling thread's policy for pages that it faults in from now on.

    *mode* is one of MPOL_*, with MPOL_F_STATIC_NODES and the like or-ed in. The kernel
    drops nodes it does not allow without a word: read back with get_mempolicy().
    Raises OSError: EINVAL where no node is left or the kernel lacks the mode, EPERM or
    ENOSYS where a filter refuses. See set_mempolicy(2).
    """
    cdef node_mask mask
    cdef int bits = as_int(mode, "mode")
    cdef ssize_t rc
    fill(&mask, nodes)
    rc = c_set_mempolicy(bits, &mask)
    interrupted(rc, "set_mempolicy")


cdef tuple policy_at(void *address, unsigned int flags):
    cdef node_mask mask
    cdef int mode = 0
    cdef ssize_t rc
    with nogil:  # the address space's lock may be held for long
        rc = c_get_mempolicy(&mode, &mask, address, flags)
    interrupted(rc, "get_mempolicy")
    return mode, members(&mask)


def get_mempolicy():
    """The calling thread's policy: its mode with flags, and its nodes.

    Nodes are those the kernel uses; under MPOL_F_STATIC_NODES and
    MPOL_F_RELATIVE_NODES those that were asked. See get_mempolicy(2).
    """
    return policy_at(NULL, 0)


def get_mempolicy_at(address):
    """The policy of the mapping at *address*, as get_mempolicy() gives it.

    MPOL_DEFAULT means that the toucher's own policy holds. No page is faulted in.
    Raises OSError(EFAULT) where nothing is mapped. See get_mempolicy(2), MPOL_F_ADDR.
    """
    return policy_at(<void *>as_count(address, "address"), MPOL_F_ADDR)


def next_node():
    """The node of the next page that the calling thread interleaves; 0 without such a policy.

    See get_mempolicy(2), MPOL_F_NODE.
    """
    cdef node_mask mask
    cdef int node = 0
    cdef ssize_t rc = c_get_mempolicy(&node, &mask, NULL, MPOL_F_NODE)
    if rc == -EINVAL:
        return 0
    interrupted(rc, "get_mempolicy")
    return node


def mems_allowed():
    """The nodes on which the calling thread may have memory (its cpuset's).

    See get_mempolicy(2), MPOL_F_MEMS_ALLOWED.
    """
    return policy_at(NULL, MPOL_F_MEMS_ALLOWED)[1]


def mbind(address, length, mode, nodes=(), flags=0):
    """Set the policy of the mapped pages in *length* bytes from *address*.

    It governs later faults; with MPOL_MF_MOVE or MPOL_MF_MOVE_ALL pages that are there
    move first, with MPOL_MF_STRICT any that lies elsewhere is OSError(EIO). Nodes that
    are not allowed are dropped without a word: read back with get_mempolicy_at().
    Raises OSError: EINVAL (no node left, *address* inside a page, mode unknown to
    the kernel), EFAULT (a hole), EPERM (MOVE_ALL without CAP_SYS_NICE). See mbind(2).
    """
    cdef node_mask mask
    cdef size_t at = as_count(address, "address")
    cdef size_t size = as_count(length, "length")
    cdef int kind = as_int(mode, "mode")
    cdef unsigned int bits = as_bits(flags, "flags")
    cdef ssize_t rc
    fill(&mask, nodes)
    while True:
        with nogil:
            rc = c_mbind(<void *>at, size, kind, &mask, bits)
        if rc == -EIO:
            fail(rc, "mbind", "pages lie on other nodes and were not moved")
        if not interrupted(rc, "mbind"):
            return


def set_mempolicy_home_node(address, length, node, flags=0):
    """Have a Bind or PreferredMany range try *node* first. *flags* must be 0.

    Raises OSError: ENOSYS before Linux 5.17, EOPNOTSUPP for a range with another mode,
    ENOENT without a policy. See set_mempolicy_home_node(2).
    """
    cdef size_t at = as_count(address, "address")
    cdef size_t size = as_count(length, "length")
    cdef unsigned long home = as_node(node, "node")
    cdef unsigned long bits = as_bits(flags, "flags")
    cdef ssize_t rc
    with nogil:
        rc = c_set_mempolicy_home_node(<void *>at, size, home, bits)
    interrupted(rc, "set_mempolicy_home_node")


cdef list call_move_pages(int pid, tuple addresses, tuple targets, int flags):
    """One move_pages(2); *targets* is None to ask only."""
    cdef Py_ssize_t n = len(addresses), i
    cdef size_t size = n * (sizeof(void *) + 2 * sizeof(int))
    cdef void *few[64]
    cdef void **pages = &few[0]
    cdef int *statuses
    cdef int *nodes
    cdef ssize_t rc
    if size > sizeof(few):
        pages = <void **>PyMem_Malloc(size)
    if pages is NULL:
        raise MemoryError(f"no memory to describe {n} pages")
    try:
        statuses = <int *>&pages[n]
        nodes = &statuses[n]
        for i in range(n):
            pages[i] = <void *>as_count(addresses[i], "addresses")
            statuses[i] = -EAGAIN
            if targets is not None:
                nodes[i] = as_node(targets[i], "nodes")
        with nogil:
            rc = c_move_pages(pid, n, pages, NULL if targets is None else nodes, statuses, flags)
        interrupted(rc, "move_pages")
        return [statuses[i] for i in range(n)]
    finally:
        if pages is not &few[0]:
            PyMem_Free(pages)


def move_pages(pid, addresses, nodes=None, flags=0):
    """Move the pages at *addresses* of process *pid* (0: this one), or ask where they are.

    *nodes* is a node for each address; None only asks, and touches nothing. Returns a
    status for each: its node, or a negative errno (-ENOENT: this process has no page
    mapped there, -EACCES: mapped more than once, which only MPOL_MF_MOVE_ALL moves,
    -EBUSY, -EFAULT, ...). The kernel stops at a page that cannot be moved now and says
    nothing of it and the rest: -EAGAIN. Raises OSError: ENODEV (no such
    node), EACCES (not allowed by the cpuset), EPERM. See move_pages(2).
    """
    cdef tuple places = tuple(addresses)
    cdef tuple targets = None if nodes is None else tuple(nodes)
    if targets is not None and len(targets) != len(places):
        raise ValueError(f"{len(places)} addresses need as many nodes, not {len(targets)}")
    return call_move_pages(as_int(pid, "pid"), places, targets, as_int(flags, "flags"))


def migrate_pages(pid, old, new):
    """Move every page that process *pid* (0: this one) has on the nodes *old* to *new*.

    Returns the number of pages that could not be moved. Raises OSError: EPERM (another's
    process, or *new* outside its cpuset, without CAP_SYS_NICE), EINVAL (no usable node
    in *new*), ESRCH. See migrate_pages(2).
    """
    cdef node_mask old_mask, new_mask
    cdef int process = as_int(pid, "pid")
    cdef ssize_t rc
    fill(&old_mask, old)
    fill(&new_mask, new)
    while True:
        with nogil:
            rc = c_migrate_pages(process, &old_mask, &new_mask)
        if not interrupted(rc, "migrate_pages"):
            return rc


def getcpu():
    """The CPU that the calling thread runs on, and its node. Stale at once unless pinned.

    See getcpu(2).
    """
    cdef unsigned int cpu = 0, node = 0
    cdef ssize_t rc = c_getcpu(&cpu, &node)
    interrupted(rc, "getcpu")
    return cpu, node


cdef void tally(unsigned long *counts, int *statuses, size_t n) noexcept nogil:
    cdef size_t i
    for i in range(n):
        if STATUS_MIN <= statuses[i] < NODES_MAX:
            counts[statuses[i] - STATUS_MIN] += 1


cdef dict each_page(object address, object length, object step, int node, int flags):
    """Ask for every page (*node* -1) or move it, chunk by chunk; pages by last status."""
    cdef size_t at = as_count(address, "address"), stride = as_step(step)
    cdef size_t size = as_count(length, "length"), left, n
    cdef int i, kinds = NODES_MAX - STATUS_MIN
    cdef ssize_t rc
    cdef void **pages = <void **>PyMem_Malloc(
        CHUNK * (sizeof(void *) + 2 * sizeof(int)) + kinds * sizeof(long))
    if pages is NULL:
        raise MemoryError("no memory to describe pages")
    cdef unsigned long *counts = <unsigned long *>&pages[CHUNK]
    cdef int *statuses = <int *>&counts[kinds]
    cdef int *nodes = &statuses[CHUNK]
    memset(counts, 0, kinds * sizeof(long))
    try:
        left = size // stride + (size % stride != 0)
        while left:
            n = min(left, <size_t>CHUNK)
            with nogil:
                if node < 0:
                    rc = c_page_statuses(at, n, stride, pages, statuses)
                else:
                    rc = c_move_statuses(at, n, stride, node, flags, pages, nodes, statuses)
                if rc >= 0:
                    tally(counts, statuses, n)
            if interrupted(rc, "move_pages"):
                continue
            at += n * stride
            left -= n
            PyErr_CheckSignals()
        return {i + STATUS_MIN: counts[i] for i in range(kinds) if counts[i]}
    finally:
        PyMem_Free(pages)


def count_statuses(address, length, step):
    """Where each of the pages in *length* bytes from *address* lies, counted.

    *step* is the size of a page. Returns {status: pages}, a status being a node or a
    negative errno as from move_pages(). Touches nothing, releases the GIL, and answers
    Ctrl-C every few thousand pages. See move_pages(2).
    """
    return each_page(address, length, step, -1, 0)


def move_range(address, length, step, node, flags=MPOL_MF_MOVE):
    """Move each of the pages in *length* bytes from *address* to *node*.

    Returns {status: pages} after moving, as count_statuses() does: -EACCES are pages that
    other mappings share, -EBUSY those that something holds, -EAGAIN (rare) those that the
    kernel gave up before. Raises as move_pages(); what had moved stays moved. See move_pages(2).
    """
    return each_page(address, length, step, as_node(node, "node"), as_int(flags, "flags"))


def policy_runs(address, length, step):
    """The policies of the pages in *length* bytes from *address*, *step* bytes each: their runs.

    Returns [(offset, mode, nodes), ...]: each holds from its offset to the next one's. No
    page is faulted in. Raises OSError(EFAULT) where nothing is mapped. See
    get_mempolicy(2), MPOL_F_ADDR.
    """
    cdef node_mask mask, before
    cdef size_t at = as_count(address, "address"), stride = as_step(step)
    cdef size_t size = as_count(length, "length"), offset = 0, chunk
    cdef int mode = 0, former = -1
    cdef ssize_t rc = 0
    cdef list runs = []
    while offset < size:
        chunk = min(size - offset, CHUNK * stride) + offset
        with nogil:
            while offset < chunk:
                rc = c_get_mempolicy(&mode, &mask, <void *>(at + offset), MPOL_F_ADDR)
                if rc < 0 or mode != former or memcmp(&mask, &before, sizeof(mask)):
                    break
                offset += stride
        if interrupted(rc, "get_mempolicy"):
            continue
        PyErr_CheckSignals()
        if offset < chunk:
            runs.append((offset, mode, members(&mask)))
            former, before = mode, mask
            offset += stride
    return runs


def node_runs(address, length, step):
    """Where the pages in *length* bytes from *address*, *step* bytes each, lie: their runs.

    Returns [(offset, status), ...], a status being a node or a negative errno as from
    move_pages(); each holds from its offset to the next one's. Touches nothing. See
    move_pages(2).
    """
    cdef size_t at = as_count(address, "address"), stride = as_step(step)
    cdef size_t size = as_count(length, "length"), offset = 0, n, i
    cdef int former = NODES_MAX
    cdef int *statuses
    cdef ssize_t rc
    cdef list runs = []
    cdef void **pages = <void **>PyMem_Malloc(CHUNK * (sizeof(void *) + sizeof(int)))
    if pages is NULL:
        raise MemoryError("no memory to describe pages")
    statuses = <int *>&pages[CHUNK]
    try:
        while offset < size:
            n = min((size - offset - 1) // stride + 1, <size_t>CHUNK)
            with nogil:
                rc = c_page_statuses(at + offset, n, stride, pages, statuses)
            if interrupted(rc, "move_pages"):
                continue
            for i in range(n):
                if statuses[i] != former:
                    former = statuses[i]
                    runs.append((offset + i * stride, former))
            offset += n * stride
            PyErr_CheckSignals()
        return runs
    finally:
        PyMem_Free(pages)


cdef size_t as_step(object step) except 0:
    cdef size_t value = as_count(step, "step")
    if value == 0:
        raise ValueError("step must be at least 1, not 0: it is the size of a page")
    return value


def extent_of(buffer):
    """The address and length in bytes of a C-contiguous *buffer*, read-only or not.

    They hold as long as the buffer may not move: keep a memoryview of it meanwhile.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        return <size_t>view.buf, view.len
    finally:
        PyBuffer_Release(&view)


def count_unmapped(address, length):
    """The base pages in *length* bytes from *address* that exist but are not mapped here.

    move_pages(2) says -ENOENT of them, mincore(2) that they are in memory: another process
    touched them. mincore cannot tell for huge pages, nor for files of other users. Touches
    nothing. See mincore(2).
    """
    cdef size_t at = as_count(address, "address"), size = as_count(length, "length")
    cdef size_t page = sysconf(_SC_PAGESIZE), left, n, unmapped = 0, i
    cdef ssize_t rc
    cdef void **pages = <void **>PyMem_Malloc(CHUNK * (sizeof(void *) + sizeof(int) + 1))
    if pages is NULL:
        raise MemoryError("no memory to describe pages")
    cdef int *statuses = <int *>&pages[CHUNK]
    cdef unsigned char *resident = <unsigned char *>&statuses[CHUNK]
    try:
        left = size // page + (size % page != 0)
        while left:
            n = min(left, <size_t>CHUNK)
            with nogil:
                # mincore first: a page that is mapped in between then counts as mapped
                rc = or_errno(mincore(<void *>at, n * page, resident))
                if rc >= 0:
                    rc = c_page_statuses(at, n, page, pages, statuses)
                if rc >= 0:
                    for i in range(n):
                        if statuses[i] == -ENOENT and resident[i] & 1:
                            unmapped += 1
            if interrupted(rc, "mincore"):
                continue
            at += n * page
            left -= n
            PyErr_CheckSignals()
        return unmapped
    finally:
        PyMem_Free(pages)


def available():
    """Whether the kernel answers NUMA calls, for libnuma to build on. See numa(3)."""
    return c_available()


cdef int require(str call) except -1:
    """Refuse where libnuma says that its other calls are undefined."""
    if not c_available():
        fail(-ENOSYS, call, "this kernel has no NUMA calls, or a filter refuses get_mempolicy")
    return 0


cdef int as_known_node(object node, str call) except -1:
    cdef int value = as_node(node, "node")
    require(call)
    if not c_node_exists(value):
        known = [i for i in range(numa_max_node() + 1) if c_node_exists(i)]
        raise ValueError(f"{call}: node {value} does not exist; this machine's nodes: "
                         f"{', '.join(map(str, known))}")
    return value


def max_node():
    """The highest node that the machine has; there may be gaps below it. See numa(3)."""
    require("numa_max_node")
    return numa_max_node()


def run_on_node_mask(nodes):
    """Let the calling thread run only on the CPUs of *nodes*, with memory or without.

    Nodes without CPUs add none. Raises OSError(EINVAL) where no usable CPU is left, and
    ValueError for a node that does not exist. See numa(3), sched_setaffinity(2).
    """
    cdef node_mask mask
    cdef list known = [as_known_node(node, "numa_run_on_node_mask") for node in nodes]
    cdef ssize_t rc
    fill(&mask, known)
    require("numa_run_on_node_mask")
    rc = c_run_on_node_mask(&mask)
    if rc == -EINVAL:
        which = f"node{'' if len(known) == 1 else 's'} {', '.join(map(str, known))}"
        fail(rc, "sched_setaffinity", f"no CPU of {which} is online and allowed to this thread")
    interrupted(rc, "sched_setaffinity")


def run_on_node(node):
    """Let the calling thread run only on the CPUs of *node*; raises as run_on_node_mask().

    See numa(3), sched_setaffinity(2).
    """
    run_on_node_mask((node,))


def node_of_cpu(cpu):
    """The node of *cpu*. Raises OSError(EINVAL) for a CPU the machine has not. See numa(3)."""
    cdef int value = as_int(cpu, "cpu")
    cdef ssize_t rc
    require("numa_node_of_cpu")
    rc = c_node_of_cpu(value)
    if rc == -EINVAL:
        fail(rc, "numa_node_to_cpus", f"no node has a CPU {value}")
    interrupted(rc, "numa_node_to_cpus")
    return rc


def distance(a, b):
    """The distance from node *a* to node *b*, 10 being near; 0 where it is not told.

    Raises ValueError for a node that does not exist. See numa(3).
    """
    return numa_distance(as_known_node(a, "numa_distance"), as_known_node(b, "numa_distance"))


def node_size(node):
    """The memory of *node* in bytes, and how much of that is free; (0, 0) without memory.

    Raises ValueError for a node that does not exist. See numa(3).
    """
    cdef int value = as_known_node(node, "numa_node_size")
    cdef long long free = 0
    cdef long long total = numa_node_size64(value, &free)
    return max(total, 0), free
