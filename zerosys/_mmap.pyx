"""mmap(2) as an object that lends its memory and takes it back safely."""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject_AsFileDescriptor
from libc.errno cimport EINTR, ENOMEM, EPERM
from posix.stat cimport S_ISREG, fstat, struct_stat

from zerosys._args cimport as_count, as_int
from zerosys._populate cimport populate as make_pages
from zerosys._range cimport BASE_PAGE, Range, as_align, empty, page_of, reserve, rounded
from zerosys._result cimport fail, interrupted, or_errno

# The longest a call goes without looking for Ctrl-C: one madvise of 6 GiB once took 17 s.
cdef size_t SLICE = 64 << 20

cdef extern from "_memfd.h" nogil:
    enum:
        F_SEAL_SHRINK
        F_SEAL_GROW
    ssize_t c_get_seals "zs_get_seals"(int fd)

cdef char *UNSIGNED_BYTE = b"B"
cdef tuple NAMES = ("madvise", "mlock", "msync")


cdef ssize_t work_on(Work work, size_t at, size_t n, int word) noexcept nogil:
    if work == ADVISE:
        return c_madvise(at, n, word)
    if work == LOCK:
        return c_mlock2(at, n, word)
    return c_msync(at, n, word)


def page_size_of(fd):
    """The bytes of a page of a mapping of *fd*: its hugetlbfs's, else the base page's.

    See fstatfs(2).
    """
    return page_of(PyObject_AsFileDescriptor(fd), 0)


@cython.no_gc_clear
cdef class Mapping:
    """Memory mapped from *fd*, or anonymous memory if *fd* is None.

    *size* bytes from byte *offset* of the file; ``mapped_size`` is rounded up to pages.
    *flags* are MapFlag (SHARED unless told otherwise; FIXED is refused, since it would
    replace somebody's memory), *protection* is Protection. *mirror* maps the same pages
    twice in a row: the buffer is then 2 * *size* bytes long, of which byte i and byte
    *size* + i are one; *size* is a multiple of the page. *align*, a power of two of
    bytes, divides the address and the mapped size. A file must reach as far as the
    mapping: what a peer truncates later is SIGBUS to touch, so share sealed memfds.

    It is a buffer. Each view (memoryview, numpy.frombuffer, ...) is a lease: close()
    under one is BufferError. *fd* is borrowed, and may be closed afterwards.
    Raises OSError for the kernel's refusals. See mmap(2).
    """

    def __cinit__(self, fd, size, *, offset=0, flags=MAP_SHARED, protection=PROT_READ | PROT_WRITE,
                  mirror=False, align=0):
        cdef int file = -1 if fd is None else PyObject_AsFileDescriptor(fd)
        cdef size_t step
        self.is_closed = True
        self.asked = as_count(size, "size")
        self.asked_object = self.asked
        self.start = as_count(offset, "offset")
        self.bits = as_int(flags, "flags") | (MAP_ANONYMOUS if fd is None else 0)
        self.prot = as_int(protection, "protection")
        self.mirrored = mirror
        if self.bits & (MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_GROWSDOWN):
            raise ValueError(f"flags must have no FIXED and no GROWSDOWN, unlike {self.bits:#x}: "
                             "align= chooses an address without replacing what is there")
        if not self.bits & (MAP_SHARED | MAP_PRIVATE):
            raise ValueError(f"flags must have SHARED or PRIVATE, unlike {self.bits:#x}")
        if file >= 0 and self.bits & MAP_ANONYMOUS:
            raise ValueError(f"ANONYMOUS memory has no file: pass None, not descriptor {file}")
        self.page = page_of(file, self.bits)
        if not 0 < self.asked <= (1 << 62):
            raise ValueError(f"size must be 1 to {1 << 62}, not {self.asked}")
        if self.start % self.page:
            raise ValueError(f"offset must be a multiple of the page of {self.page} bytes, not {self.start}")
        step = as_align(align, self.page)
        if mirror and (self.asked % <Py_ssize_t>step or not self.bits & MAP_SHARED or file < 0):
            raise ValueError(f"a mirror needs a file, SHARED, and a size that is a multiple of {step} bytes, "
                             f"not {self.asked}")
        self.span = rounded(self.asked, step)
        self.reach(file)
        self.map_at(file, step)
        self.is_closed = False

    cdef int reach(self, int file) except -1:
        """Refuse a file that ends before the mapping does: the rest is SIGBUS to touch."""
        cdef struct_stat about
        if file < 0:
            return 0
        interrupted(or_errno(fstat(file, &about)), "fstat")
        self.device, self.inode = about.st_dev, about.st_ino
        # The last base page of a file may be partly beyond its end, and reads zeros there.
        if S_ISREG(about.st_mode) and <off_t>rounded(about.st_size, BASE_PAGE) < self.start + self.span:
            raise ValueError(f"the file has {about.st_size} bytes, which is less than offset {self.start} "
                             f"+ mapped size {self.span}: ftruncate() it first")
        if S_ISREG(about.st_mode) and about.st_size < self.start + self.asked:
            raise ValueError(f"the file has {about.st_size} bytes, which is less than offset {self.start} "
                             f"+ size {self.asked}: ftruncate() it first")
        return 0

    cdef int map_at(self, int file, size_t align) except -1:
        """Map into addresses reserved for it, so that two halves can lie side by side."""
        cdef Range room
        if self.mirrored or align > <size_t>self.page:
            room = reserve(self.span * (2 if self.mirrored else 1), align)
            self.map_half(file, room.at)
            if self.mirrored:
                self.map_half(file, room.at + self.span)
        else:
            room = Range.__new__(Range)
            room.at = self.map_half(file, 0)
            room.length = self.span
        room.former = self.range
        self.range = room
        if self.mirrored:
            self.span *= 2
        return 0

    cdef size_t map_half(self, int file, size_t place) except 0:
        """Map ``span`` bytes at *place*, reserved for them, or where the kernel likes (0)."""
        cdef int bits = self.bits | (MAP_FIXED if place else 0)
        cdef ssize_t at
        while True:
            with nogil:  # MAP_POPULATE and MAP_LOCKED read the whole file
                at = c_mmap(place, self.span, self.prot, bits, file, self.start)
            if at == -ENOMEM and self.page > <Py_ssize_t>BASE_PAGE:
                fail(at, "mmap", f"the pool of {self.page >> 10} kB huge pages has fewer free than "
                     f"{self.span // self.page}: see /sys/kernel/mm/hugepages/hugepages-"
                     f"{self.page >> 10}kB/nr_hugepages")
            if not interrupted(at, "mmap"):
                return at

    # -- what it is ------------------------------------------------------------------------

    @property
    def size(self):
        """The bytes asked for; of a mirror, those of one half."""
        return self.asked_object  # made once: a new int at each call costs a third of it

    @property
    def mapped_size(self):
        """The bytes mapped, whole pages; of a mirror, both halves."""
        return self.span

    @property
    def page_size(self):
        """The bytes of one page: a huge page for hugetlb memory."""
        return self.page

    @property
    def address(self):
        """Where the memory lies in this process. Raises ValueError once closed."""
        self.check()
        return self.range.at

    @property
    def protection(self):
        """What may be done with the memory: the bits of Protection."""
        return self.prot

    @property
    def flags(self):
        """The bits of MapFlag that it was mapped with."""
        return self.bits

    @property
    def mirror(self):
        """Whether the same pages are mapped twice in a row."""
        return self.mirrored

    @property
    def closed(self):
        """Whether it takes no new views: closed, or left with views alive."""
        return self.is_closed or self.is_closing

    @property
    def file_id(self):
        """The device and inode number of the mapped file; (0, 0) for anonymous memory."""
        return self.device, self.inode

    @property
    def views(self):
        """The leases alive now: views, and calls of other threads that work on the memory."""
        return self.leases

    def __len__(self):
        return self.span if self.mirrored else self.asked

    def __repr__(self):
        state = "closed" if self.closed else f"at {self.range.at:#x}"
        return f"<{type(self).__name__} of {self.asked} bytes, {state}>"

    def __reduce__(self):
        raise TypeError(f"a {type(self).__name__} is memory of this process and cannot be pickled")

    cdef int check(self) except -1:
        if self.is_closed or self.is_closing:
            raise ValueError(f"this {type(self).__name__} is closed")
        if self.changing:
            raise BufferError(f"another thread is changing this {type(self).__name__}: wait for it")
        return 0

    cdef int idle(self, str what) except -1:
        if self.leases:
            raise BufferError(f"cannot {what} under {self.leases} live view(s): delete them, or call "
                              "release() on the memoryviews, first")
        return 0

    cdef int cut(self, object offset, object length, size_t *at, size_t *n) except -1:
        """The part of the mapping that *offset* and *length* name, None being the rest."""
        cdef Py_ssize_t begin, part
        self.check()
        begin = as_count(offset, "offset")
        if begin % self.page or begin > self.span:
            raise ValueError(f"offset must be a multiple of the page of {self.page} bytes and at most "
                             f"{self.span}, not {begin}")
        part = self.span - begin if length is None else as_count(length, "length")
        if part > self.span - begin:
            raise ValueError(f"length must be at most {self.span - begin} from offset {begin}, not {part}")
        at[0], n[0] = self.range.at + begin, rounded(part, self.page)
        return 0

    # -- lending ---------------------------------------------------------------------------

    def __getbuffer__(self, Py_buffer *view, int wish):
        cdef Lease lease = Lease.__new__(Lease)
        cdef bint readonly = not self.prot & PROT_WRITE
        self.check()
        if not self.prot & PROT_READ:
            raise BufferError(f"the mapping cannot be read: protection is {self.prot:#x}")
        if wish & PyBUF_WRITABLE and readonly:
            raise BufferError("the mapping is read-only")
        lease.length = self.span if self.mirrored else self.asked  # a subclass may count other things
        lease.owner = self
        self.leases += 1
        view.obj = lease
        view.buf = <void *>self.range.at
        view.len = lease.length
        view.itemsize = 1
        view.readonly = readonly
        view.ndim = 1
        view.format = UNSIGNED_BYTE if wish & PyBUF_FORMAT else NULL
        view.shape = &lease.length if wish & PyBUF_ND else NULL
        view.strides = &view.itemsize if wish & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        view.suboffsets = NULL
        view.internal = NULL

    def __releasebuffer__(self, Py_buffer *view):
        # Never called: the exporter of a view is its Lease. But numpy.frombuffer keeps a
        # view, and so a lease, only of a type that defines this.
        pass

    cdef int leave(self) except -1:
        """One lease less; the last one after a ``with`` frees the memory."""
        self.leases -= 1
        if self.is_closing and not self.leases:
            self.drop()
        return 0

    cdef int drop(self) except -1:
        self.is_closed = True  # first: other threads run meanwhile
        try:
            empty(self.range, 0)
        except OSError:
            self.is_closed = False
            raise
        return 0

    def close(self):
        """Give the memory back; closing twice is fine.

        Raises BufferError while views are alive, and changes nothing then. An array that
        holds only this object (``numpy.ndarray(buffer=mapping)``) reads zeros afterwards.
        """
        if self.is_closed:
            return
        self.idle("close")
        self.drop()

    def __enter__(self):
        self.check()
        return self

    def __exit__(self, *exc):
        """Close, or take no new views and leave it to the last view to free the memory."""
        self.is_closing = True
        if not self.is_closed and not self.leases:
            self.drop()

    # -- the calls on it -------------------------------------------------------------------

    def advise(self, advice, *, offset=0, length=None):
        """Tell the kernel how the pages will be used: an Advice, or its number.

        *offset* and *length* are in bytes, whole pages; None is all the rest. Some advice
        drops data, poisons pages or makes touching them fatal: this is the raw call.
        Raises OSError EINVAL for advice that the kernel does not know or that does not
        fit the mapping. See madvise(2).
        """
        cdef size_t at, n
        cdef int word = as_int(advice, "advice")
        self.cut(offset, length, &at, &n)
        self.in_slices(ADVISE, at, n, word)

    def lock(self, *, offset=0, length=None):
        """Bring the pages in and keep them from being swapped. All or none: a refusal leaves all unlocked.

        Raises OSError: ENOMEM beyond RLIMIT_MEMLOCK, EPERM where that is 0. See mlock(2).
        """
        cdef size_t at, n
        self.cut(offset, length, &at, &n)
        self.in_slices(LOCK, at, n, 0)

    def lock_on_fault(self, *, offset=0, length=None):
        """Keep each page from being swapped once it is there. See mlock2(2), MLOCK_ONFAULT."""
        cdef size_t at, n
        self.cut(offset, length, &at, &n)
        self.in_slices(LOCK, at, n, MLOCK_ONFAULT)

    def unlock(self, *, offset=0, length=None):
        """Let the pages be swapped again. See munlock(2)."""
        cdef size_t at, n
        self.cut(offset, length, &at, &n)
        interrupted(c_munlock(at, n), "munlock")

    def sync(self, flags=MS_SYNC, *, offset=0, length=None):
        """Write changed pages of a file back; MS_SYNC waits for it. See msync(2)."""
        cdef size_t at, n
        cdef int bits = as_int(flags, "flags")
        self.cut(offset, length, &at, &n)
        self.in_slices(SYNC, at, n, bits)

    cdef int in_slices(self, Work work, size_t at, size_t n, int word) except -1:
        """Do *work* slice by slice, the GIL released, looking for Ctrl-C between slices."""
        cdef size_t begin = at, end = at + n, part, step = max(SLICE, <size_t>self.page)
        cdef ssize_t rc
        if n <= step:  # one call, nearly always: nothing to look for in between
            self.leases += 1
            with nogil:
                rc = work_on(work, at, n, word)
            self.leave()
            if rc >= 0:
                return 0
            if rc != -EINTR:
                if work == LOCK:
                    c_munlock(at, n)
                fail(rc, NAMES[<int>work])
        self.leases += 1
        try:
            while True:
                part = min(step, end - at)
                with nogil:
                    rc = work_on(work, at, part, word)
                if rc >= 0 or not interrupted(rc, NAMES[<int>work]):
                    at += part
                    if at >= end:
                        return 0
                PyErr_CheckSignals()
        except BaseException:
            if work == LOCK:
                c_munlock(begin, min(at + step, end) - begin)
            raise
        finally:
            self.leave()

    def resident(self, *, offset=0, length=None):
        """The bytes that are in memory, counted page by page without touching any.

        For a shared file these are the file's pages, whether or not this process has
        mapped them; for hugetlb memory only the mapped ones. See mincore(2).
        """
        cdef size_t at, n, end, part, i
        cdef Py_ssize_t pages = 0
        cdef ssize_t rc
        cdef unsigned char seen[4096]
        self.cut(offset, length, &at, &n)
        end = at + n
        self.leases += 1
        try:
            while at < end:
                part = min(<size_t>sizeof(seen) * BASE_PAGE, end - at)
                with nogil:
                    rc = c_mincore(at, part, seen)
                    if rc == 0:
                        for i in range(part // BASE_PAGE):
                            pages += seen[i] & 1
                if not interrupted(rc, "mincore"):
                    at += part
            return pages * BASE_PAGE
        finally:
            self.leave()

    def protect(self, protection):
        """Allow what *protection* (Protection) says and nothing else.

        Raises BufferError while views are alive that would lose a right. An array that
        holds only this object cannot be seen here: touching it would be fatal.
        See mprotect(2).
        """
        cdef int wish = as_int(protection, "protection")
        cdef ssize_t rc
        self.check()
        if self.prot & ~wish:
            self.idle("protect")
        self.change()
        try:
            with nogil:
                rc = c_mprotect(self.range.at, self.span, wish)
            interrupted(rc, "mprotect")
            self.prot = wish
        finally:
            self.changed()

    cdef int change(self) except -1:
        """Lend to nobody and work for nobody else until changed(): the GIL will be released."""
        self.changing = True
        self.leases += 1

    cdef int changed(self) except -1:
        self.changing = False
        return self.leave()

    def populate(self, *, write=True, threads=1, cpus=None, offset=0, length=None):
        """Make the pages exist, so that no later touch of them can fail.

        *write* makes them writable here; False maps them to be read. *threads* do it, on
        *cpus* (numbers; a wish) if given; they take no signals. Contents stay. Returns
        the bytes that were asked for, rounded to pages. Raises OSError: EFAULT where no
        page could be had (a full file system, an empty huge-page pool, past the end of a
        file), ENOMEM; the exception's ``populated`` tells the bytes done until then, as does a
        KeyboardInterrupt's. See madvise(2), MADV_POPULATE_WRITE; before Linux 5.14 each
        page is touched through futex(2).
        """
        cdef size_t at, n
        cdef Py_ssize_t workers = as_count(threads, "threads")
        self.cut(offset, length, &at, &n)
        if write and not self.prot & PROT_WRITE:
            raise ValueError("a read-only mapping cannot be populated by writing: pass write=False")
        self.leases += 1
        try:
            make_pages(at, n, self.page, write, <int>min(workers, 1 << 16), cpus)
        finally:
            self.leave()
        return n

    def resize(self, size, fd=None):
        """Make the mapping, and the file under it from the mapping's offset on, *size* bytes long.

        *fd* is the mapped file again (private anonymous memory has none), since the
        mapping kept no descriptor. Contents stay as far as they reach; the address may
        change. Locks, advice and the policies of hugetlb and anonymous memory are lost:
        set them again. Raises BufferError under live views, PermissionError for a sealed
        file, ValueError for a mirror or another file. See mremap(2), ftruncate(2).
        """
        cdef Py_ssize_t wish = as_count(size, "size")
        cdef int file = -1 if fd is None else PyObject_AsFileDescriptor(fd)
        self.check()
        self.idle("resize")
        if self.mirrored or self.bits & MAP_ANONYMOUS and self.bits & MAP_SHARED:
            raise ValueError("a mirror, and shared anonymous memory, cannot be resized: make a new mapping")
        if not 0 < wish <= (1 << 62):
            raise ValueError(f"size must be 1 to {1 << 62}, not {wish}")
        if (fd is None) != bool(self.bits & MAP_ANONYMOUS):
            raise ValueError("fd must be the mapped file" if fd is None else "anonymous memory has no file")
        self.change()
        try:
            if fd is None:
                self.resize_anonymous(wish)
            else:
                self.resize_file(wish, file)
        finally:
            self.changed()

    cdef int resize_anonymous(self, Py_ssize_t wish) except -1:
        cdef size_t span = rounded(wish, self.page), kept = min(span, <size_t>self.span)
        cdef Range old = self.range, room = roomy(old, span, self.page)
        cdef ssize_t rc
        if span > kept:
            interrupted(c_mmap(room.at + kept, span - kept, self.prot, self.bits | MAP_FIXED, -1, 0), "mmap")
        if room is not old:
            with nogil:
                rc = c_mremap(old.at, kept, room.at)
            interrupted(rc, "mremap")
        self.settle(room, wish, span)
        return 0

    cdef int resize_file(self, Py_ssize_t wish, int file) except -1:
        cdef struct_stat about
        cdef Py_ssize_t before = self.span
        cdef bint huge = self.page > <Py_ssize_t>BASE_PAGE
        cdef off_t end = self.start + (rounded(wish, self.page) if huge else wish)
        cdef ssize_t seals = c_get_seals(file)
        interrupted(or_errno(fstat(file, &about)), "fstat")
        if about.st_dev != self.device or about.st_ino != self.inode:
            raise ValueError(f"descriptor {file} is not the file that is mapped")
        # Grow the file before the mapping and shrink it after: no byte that is mapped is ever
        # past the end. So a seal has to be seen first.
        if seals > 0 and seals & (F_SEAL_GROW if end > about.st_size else F_SEAL_SHRINK):
            fail(-EPERM, "ftruncate", f"descriptor {file} is sealed against changes of size: make another")
        if end > about.st_size:
            interrupted(c_ftruncate(file, end), "ftruncate")
        cdef Range room = roomy(self.range, rounded(wish, self.page), self.page)
        self.span = rounded(wish, self.page)
        try:
            self.map_half(file, room.at)
        except OSError:
            self.span = before
            raise
        self.settle(room, wish, self.span)
        if end < about.st_size:
            interrupted(c_ftruncate(file, end), "ftruncate")
        return 0

    cdef int settle(self, Range room, Py_ssize_t wish, size_t span) except -1:
        """Take *room*, of which *span* bytes are mapped; what else was mapped is empty memory now."""
        cdef Range old = self.range
        if room is not old:
            empty(old, 0)
            room.former, self.range = old, room
        elif span < room.length:
            empty(room, span)
        self.asked, self.span = wish, span
        self.asked_object = wish
        return 0


cdef Range roomy(Range have, size_t span, size_t page):
    """*have*, if *span* bytes fit; else room for twice as many, so that growth moves seldom."""
    if span <= have.length:
        return have
    try:
        return reserve(2 * span, page)
    except OSError:  # RLIMIT_AS
        return reserve(span, page)


@cython.auto_pickle(False)
@cython.no_gc_clear  # __dealloc__ gives the lease back to its owner
@cython.final
cdef class Lease:
    """What a view of a Mapping holds: while it lives, the memory stays."""

    def __dealloc__(self):
        if self.owner is not None:
            try:
                self.owner.leave()
            except OSError:
                pass  # no memory for the overlay: the pages go when the Mapping is collected

    def __repr__(self):
        return f"<Lease of {self.owner!r}>"

    @property
    def mapping(self):
        """The Mapping that lent the memory."""
        return self.owner

    cdef int own(self, size_t at, size_t n) except -1:
        """Refuse bytes that the mapping of this lease does not have."""
        if self.owner is None:
            raise ValueError("a Lease is made by taking a view of a Mapping")
        if at < self.owner.range.at or n > <size_t>self.length or at - self.owner.range.at > self.length - n:
            raise ValueError(f"{n} bytes at {at:#x} are no part of {self.owner!r}")
        return 0

    def check_gift(self, address, length):
        """Refuse to give *length* bytes at *address* away, unless they are wholly ours to give.

        Raises ValueError for shared memory and parts of pages, BufferError under other
        views. See vmsplice(2), SPLICE_F_GIFT.
        """
        cdef size_t at = as_count(address, "address"), n = as_count(length, "length")
        self.own(at, n)
        if self.owner.bits & MAP_SHARED or not self.owner.bits & MAP_ANONYMOUS:
            raise ValueError("only private anonymous memory can be given away: a peer could write to shared "
                             "pages after the gift; vmsplice() without GIFT, or write()")
        if n == 0 or at % self.owner.page or n % self.owner.page:
            raise ValueError(f"a gift is whole pages of {self.owner.page} bytes, not {n} bytes at {at:#x}")
        if self.owner.leases > 1:
            raise BufferError(f"cannot give pages away under {self.owner.leases - 1} other live view(s)")

    def gifted(self, address, length):
        """Put fresh zero pages where *length* bytes at *address* were given away."""
        cdef size_t at = as_count(address, "address"), n = as_count(length, "length")
        self.own(at, n)
        n = rounded(n, self.owner.page)
        if c_madvise(at, n, MADV_DONTNEED_LOCKED) < 0:  # before Linux 5.18
            interrupted(c_madvise(at, n, MADV_DONTNEED), "madvise(MADV_DONTNEED)")
