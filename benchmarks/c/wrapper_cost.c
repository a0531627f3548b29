/* splice(2) and its family in C loops. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loop.h"

static int waiting(int fd)
{
    int bytes = -1;
    return ioctl(fd, FIONREAD, &bytes) < 0 ? -1 : bytes;
}

static loff_t at, to;
static char byte;
static struct iovec one = {&byte, 1};

LOOP(splice_0, (long n, int r, int w), splice(r, NULL, w, NULL, 0, 0) == 0)
LOOP(splice_pair, (long n, int file, int w, int r, int null),
     (at = 0, splice(file, &at, w, NULL, 1, 0) == 1) && splice(r, NULL, null, NULL, 1, 0) == 1)
LOOP(sendfile_1, (long n, int null, int file), (at = 0, sendfile(null, file, &at, 1) == 1))
LOOP(tee_0, (long n, int r, int w), tee(r, w, 0, 0) == 0)
LOOP(tee_pair, (long n, int full, int w, int r, int null),
     tee(full, w, 1, 0) == 1 && splice(r, NULL, null, NULL, 1, 0) == 1)
LOOP(vmsplice_pair, (long n, int w, int r, int null),
     vmsplice(w, &one, 1, 0) == 1 && splice(r, NULL, null, NULL, 1, 0) == 1)
LOOP(vmsplice_bytes_pair, (long n, int w, int r, int null),
     (fcntl(w, F_GETFL) & O_ACCMODE) == O_WRONLY && vmsplice(w, &one, 1, 0) == 1 &&
     splice(r, NULL, null, NULL, 1, 0) == 1)
LOOP(vmsplice_read, (long n, int r), vmsplice(r, &one, 1, 0) == 1)
LOOP(readv_1, (long n, int r), readv(r, &one, 1) == 1)
LOOP(copy_file_range_1, (long n, int from, int into),
     (at = 0, to = 0, copy_file_range(from, &at, into, &to, 1, 0) == 1))
LOOP(pipe_capacity, (long n, int r), fcntl(r, F_GETPIPE_SZ) > 0)
LOOP(set_pipe_capacity, (long n, int r), fcntl(r, F_GETPIPE_SZ) > 0 && fcntl(r, F_SETPIPE_SZ, 65536) == 65536)
LOOP(pipe_occupancy, (long n, int r), waiting(r) == 1)
LOOP(linkat_each, (long n, const char *old, const char **links), linkat(AT_FDCWD, old, AT_FDCWD, links[i], 0) == 0)
