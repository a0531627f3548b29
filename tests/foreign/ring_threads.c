/* A ring between threads of one process, for ThreadSanitizer: a writer that waits for room, readers that
 * stay, and readers that come and go. ring_threads KIND COUNT, with KIND stream or messages. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ring.h"

enum { STAYING = 2, PASSING = 2, SLOTS = STAYING + PASSING, SIZE = 4096 };
#define WAIT INT64_C(60000000000)

static struct zs_ring ring;
static int control_fd;
static uint64_t count;
static int ended, listening;

static int64_t need(int64_t rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", what, strerror((int)-rc));
        exit(1);
    }
    return rc;
}

static void wrong(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* -- the stream: item n is n ------------------------------------------------------------------- */

static void write_items(struct zs_ring_writer *w, struct zs_ring_end *end)
{
    for (uint64_t done = 0; done < count;) {
        unsigned char *at;
        uint64_t n = 1 + done % 37;
        n = n < count - done ? n : count - done;
        need(zs_writer_claim(w, end, control_fd, n, WAIT, &at), "claim");
        for (uint64_t i = 0; i < n; i++, done++)
            memcpy(at + 8 * i, &done, 8);
        zs_writer_commit(w, n);
    }
}

/* Read up to most items in order; how many there were. */
static uint64_t read_items(struct zs_ring_reader *r, uint64_t most)
{
    uint64_t done = 0, item, last = 0;
    while (done < most) {
        unsigned char *at;
        int64_t got = need(zs_reader_peek(r, control_fd, 1 + done % 11, WAIT, &at), "peek");
        if (got == 0)
            break;
        for (int64_t i = 0; i < got; i++, done++) {
            memcpy(&item, at + 8 * i, 8);
            if (done && item != last + 1)
                wrong("an item is missing, doubled or torn");
            last = item;
        }
        zs_reader_done(r, (uint64_t)got);
    }
    return done;
}

/* -- messages: message n is 8 + n % 90 bytes, the first of which are n --------------------------- */

static void write_messages(struct zs_ring_writer *w, struct zs_ring_end *end)
{
    for (uint64_t n = 0; n < count; n++) {
        unsigned char *at;
        uint64_t length = 8 + n % 90, span = zs_message_span(&ring, length);
        need(zs_writer_claim(w, end, control_fd, span, WAIT, &at), "claim");
        at = zs_message_place(w, 0, length);
        memset(at, (int)n, length);
        memcpy(at, &n, 8);
        zs_message_commit(w, zs_message_lay(w, 0, length, length));
    }
}

static uint64_t read_messages(struct zs_ring_reader *r, uint64_t most)
{
    uint64_t done = 0, n, last = 0;
    struct zs_message m = {0};
    for (; done < most; done++) {
        unsigned char *at;
        if (need(zs_reader_peek(r, control_fd, 1, WAIT, &at), "peek") == 0)
            break;
        need(zs_message_next(r, &m), "message");
        memcpy(&n, m.at, 8);
        if (m.length != 8 + n % 90 || m.sequence != n || (done && n != last + 1))
            wrong("a message is missing, doubled or torn");
        for (uint64_t i = 8; i < m.length; i++)
            if (m.at[i] != (unsigned char)n)
                wrong("a message is torn");
        last = n;
        zs_message_step(r, &m);
        zs_reader_release(r, r->next, 1);
        if (zs_reader_awaited(r))
            zs_reader_wake(r);
    }
    return done;
}

/* -- threads ---------------------------------------------------------------------------------------- */

static uint64_t read_some(struct zs_ring_reader *r, uint64_t most)
{
    return ring.kind == ZS_RING_STREAM ? read_items(r, most) : read_messages(r, most);
}

static void *stay(void *unused)
{
    struct zs_ring_reader r;
    struct zs_ring_end end;
    need(zs_reader_open(&r, &ring, control_fd, -1, 1, &end), "a reader that stays");
    __atomic_fetch_add(&listening, 1, __ATOMIC_ACQ_REL);
    if (read_some(&r, UINT64_MAX) != count)
        wrong("a reader that stayed has not had all");
    zs_reader_close(&r, &end);
    return unused;
}

static void *pass_by(void *oldest)
{
    struct zs_ring_reader r;
    struct zs_ring_end end;
    while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
        int rc = zs_reader_open(&r, &ring, control_fd, -1, oldest != NULL, &end);
        if (rc == -EAGAIN)
            continue; /* the other is just giving that slot up */
        need(rc, "a reader that passes");
        read_some(&r, 50);
        zs_reader_close(&r, &end);
    }
    return NULL;
}

static void *write_all(void *unused)
{
    struct zs_ring_writer w;
    struct zs_ring_end end;
    while (__atomic_load_n(&listening, __ATOMIC_ACQUIRE) < STAYING)
        zs_ring_pause();
    need(zs_writer_open(&w, &ring, control_fd, &end), "writer");
    if (ring.kind == ZS_RING_STREAM)
        write_items(&w, &end);
    else
        write_messages(&w, &end);
    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
    zs_writer_finish(&w, &end);
    return unused;
}

static void make(uint32_t kind)
{
    struct zs_ring_header header;
    struct stat about;
    int data_fd = memfd_create("data", MFD_CLOEXEC);
    control_fd = memfd_create("control", MFD_CLOEXEC);
    need(ftruncate(data_fd, SIZE) | ftruncate(control_fd, (off_t)zs_ring_control_size(SLOTS)), "memory");
    need(fstat(data_fd, &about), "memory");
    memset(&header, 0, sizeof header);
    header.kind = kind;
    header.slots = SLOTS;
    header.size = header.capacity = SIZE;
    header.item_size = kind == ZS_RING_STREAM ? 8 : 1;
    header.limit = SIZE / header.item_size;
    header.start = kind == ZS_RING_STREAM ? UINT64_MAX - 1000 : UINT64_MAX - 15999; /* wraps on the way */
    header.data_device = about.st_dev;
    header.data_inode = about.st_ino;
    header.format_length = 1;
    header.format[0] = kind == ZS_RING_STREAM ? 'Q' : 'B';
    void *control = mmap(NULL, zs_ring_control_size(SLOTS), PROT_READ | PROT_WRITE, MAP_SHARED, control_fd, 0);
    if (control == MAP_FAILED)
        wrong("mmap");
    zs_ring_format((struct zs_ring_control *)control, &header);
    need(zs_ring_attach(&ring, control_fd, data_fd, 1), "attach");
}

int main(int words, char **word)
{
    pthread_t threads[1 + SLOTS];
    if (words != 3)
        return 2;
    count = strtoull(word[2], NULL, 10);
    make(strcmp(word[1], "stream") == 0 ? ZS_RING_STREAM : ZS_RING_MESSAGES);
    pthread_create(&threads[0], NULL, write_all, NULL);
    for (int i = 0; i < STAYING; i++)
        pthread_create(&threads[1 + i], NULL, stay, NULL);
    while (__atomic_load_n(&listening, __ATOMIC_ACQUIRE) < STAYING)
        zs_ring_pause();
    for (int i = 0; i < PASSING; i++)
        pthread_create(&threads[1 + STAYING + i], NULL, pass_by, i ? &ring : NULL);
    for (int i = 0; i < 1 + SLOTS; i++)
        pthread_join(threads[i], NULL);
    printf("%d readers had all of %lu\n", STAYING, (unsigned long)count);
    return 0;
}
