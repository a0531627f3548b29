/* The explorer: goes through every state that a scenario can reach; explorer.h says how.
 *
 *   explorer [--tso] [--weaken SITE] [--preemptions N] [--sites] SCENARIO
 *
 * Exits 0 and prints what it saw, 1 and the steps that led there for a broken promise, 2 for its own limits.
 * SITE is FILE:LINE:SYNC as --sites prints it: that ordering is taken out wherever it is passed.
 */
#include <stdarg.h>

#include "snapshot.h"

static const struct scenario *scenario;
static ucontext_t explorer;
static int current = -1; /* the thread that runs; -1: the explorer itself */

/* -- from the code under test to the explorer ---------------------------------------------------- */

static const struct site *sites[512];
static int seen_sites;
static const char *weaken;

static const char *site_name(const struct site *site)
{
    static char name[120];
    const char *slash = strrchr(site->file, '/');
    snprintf(name, sizeof name, "%s:%d:%s", slash ? slash + 1 : site->file, site->line, site->sync);
    return name;
}

static bool is_weakened(const struct site *site) { return weaken && strcmp(site_name(site), weaken) == 0; }

static void note(const struct site *site)
{
    for (int n = 0; n < seen_sites; n++)
        if (sites[n] == site)
            return;
    if (seen_sites == (int)(sizeof sites / sizeof *sites))
        give_up("too many sites");
    sites[seen_sites++] = site;
}

static void broken(const char *format, ...);

/* Whether nobody can tell when the pending step is made, so that one order of it is enough: plain accesses,
 * which must be ordered by others; fences for oneself; stores into one's own buffer; and what the code under
 * test says it does for nobody's sake ("none"), where there is only one value to see. */
static bool is_private(const struct thread *thread)
{
    const struct pending *op = &thread->op;
    if (op->kind == READ || op->kind == WRITE)
        return true;
    if (op->kind == FENCE)
        return op->order != SEQ_CST;
    if (model == TSO && op->kind == STORE)
        return true;
    bool for_nobody = op->site && strcmp(op->site->sync, "none") == 0;
    return for_nobody && (op->kind == STORE || (op->kind == LOAD && ways(thread) == 1));
}

static uint64_t ask(struct pending op)
{
    struct thread *thread = &now.thread[current];
    if (op.site) {
        note(op.site);
        op.order = is_weakened(op.site) ? RELAXED : op.site->order;
    }
    thread->op = op;
    if (is_private(thread)) {
        if (!step(thread, 0))
            broken("a race: another thread's access to the same place need not be over");
    } else
        swapcontext(&thread->context, &explorer);
    return thread->op.result;
}

uint64_t ex_load(const struct site *site, const volatile void *at, size_t size)
{
    if (current < 0)
        return plainly(at, size);
    return ask((struct pending){.kind = LOAD, .site = site, .location = location_of(at, size)});
}

uint64_t ex_read(const volatile void *at, size_t size)
{
    if (current < 0)
        return plainly(at, size);
    return ask((struct pending){.kind = READ, .location = location_of(at, size)});
}

static void plain_store(volatile void *at, size_t size, uint64_t value)
{
    if (size == 4)
        *(volatile uint32_t *)at = (uint32_t)value;
    else
        *(volatile uint64_t *)at = value;
}

void ex_store(const struct site *site, volatile void *at, size_t size, uint64_t value)
{
    if (current < 0)
        plain_store(at, size, value);
    else
        ask((struct pending){.kind = STORE, .site = site, .location = location_of(at, size), .value = value});
}

void ex_write(volatile void *at, size_t size, uint64_t value)
{
    if (current < 0)
        plain_store(at, size, value);
    else
        ask((struct pending){.kind = WRITE, .location = location_of(at, size), .value = value});
}

static uint64_t modify(const struct site *site, volatile void *at, size_t size, enum change change, uint64_t value)
{
    struct pending op = {.kind = MODIFY, .change = change, .site = site, .value = value};
    if (current >= 0) {
        op.location = location_of(at, size);
        return ask(op);
    }
    uint64_t old = plainly(at, size);
    plain_store(at, size, changed(&op, old));
    return old;
}

uint64_t ex_exchange(const struct site *site, volatile void *at, size_t size, uint64_t value)
{
    return modify(site, at, size, EXCHANGE, value);
}

uint64_t ex_add(const struct site *site, volatile void *at, size_t size, uint64_t value)
{
    return modify(site, at, size, ADD, value);
}

uint64_t ex_or(const struct site *site, volatile void *at, size_t size, uint64_t value)
{
    return modify(site, at, size, OR, value);
}

uint64_t ex_and(const struct site *site, volatile void *at, size_t size, uint64_t value)
{
    return modify(site, at, size, AND, value);
}

void ex_fence(const struct site *site)
{
    if (current >= 0)
        ask((struct pending){.kind = FENCE, .site = site});
}

bool ex_futex_wait(volatile void *at, uint32_t expected)
{
    return ask((struct pending){.kind = WAIT, .location = location_of(at, 4), .value = expected});
}

void ex_futex_wake(volatile void *at)
{
    if (current >= 0)
        ask((struct pending){.kind = WAKE, .location = location_of(at, 4)});
}

bool ex_alive(int thread) { return ask((struct pending){.kind = ALIVE, .value = (uint64_t)thread}); }

uint64_t ex_final(const volatile void *at, size_t size)
{
    const void *home = ex_home(at);
    for (int n = 0; n < now.locations; n++)
        if (now.location[n].address == home)
            return latest((uint8_t)n);
    return plainly(home, size);
}

bool ex_killed(int thread) { return now.killed == thread + 1; }

/* -- going through ------------------------------------------------------------------------------- */

enum { WAYS = HISTORY, DIE = WAYS, FLUSH, SLICE, CHOICES }; /* of each thread */

static struct frame *path[4096];
static int depth;
static char text[200]; /* the step that is being made */
static int allowed = -1; /* preemptions */

static const char *name_of(enum order order)
{
    return (const char *[]){"relaxed", "acquire", "release", "acq_rel", "seq_cst"}[order];
}

static void broken(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("BROKEN in %s: ", scenario->name);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    for (int n = 2; n <= depth; n++) /* 1: the start */
        printf("  %s\n", path[n]->text);
    if (strcmp(text, path[depth]->text) != 0)
        printf("  %s\n", text);
    exit(1);
}

void ex_check(bool holds, const char *what)
{
    if (!holds)
        broken("%s (thread %d)", what, current);
}

static void run(int n)
{
    current = n;
    swapcontext(&explorer, &now.thread[n].context);
    current = -1;
}

static void body(void)
{
    int n = current;
    scenario->threads[n]();
    now.thread[n].life = DONE;
    memset(&now.thread[n].op, 0, sizeof now.thread[n].op);
    swapcontext(&now.thread[n].context, &explorer);
}

static void describe(int n, const struct pending *op, int choice)
{
    static const char *const kinds[] = {"load", "read", "store", "write", "modify", "fence", "futex wait", "futex wake", "alive?"};
    if (choice >= WAYS) {
        static const char *const others[] = {"dies", "has one of its stores reach memory", "sleeps no longer"};
        snprintf(text, sizeof text, "%d %s", n, others[choice - WAYS]);
        return;
    }
    const void *at = op->kind == FENCE || op->kind == ALIVE ? NULL : now.location[op->location].address;
    snprintf(text, sizeof text, "%d %s %s %s at %p: %llx -> %llx", n, kinds[op->kind],
             op->site ? name_of(op->order) : "", op->site ? site_name(op->site) : "", at,
             (unsigned long long)op->value, (unsigned long long)op->result);
}

static void make(int n, int choice)
{
    struct thread *thread = &now.thread[n];
    struct pending op = thread->op;
    bool fine = true;
    if (choice == DIE) {
        thread->life = DEAD;
        now.killed = (uint8_t)(n + 1);
    } else if (choice == FLUSH) {
        flush_one(thread);
    } else if (choice == SLICE) {
        end_of_slice(thread);
    } else {
        if (now.last != n && now.last >= 0 && ways(&now.thread[now.last]) > 0)
            now.preemptions++;
        now.last = (int8_t)n;
        fine = step(thread, choice);
        op.result = thread->op.result, op.order = thread->op.order;
    }
    describe(n, &op, choice);
    if (!fine)
        broken("a race: another thread's access to the same place need not be over");
    if (choice < WAYS && thread->life == RUNNING)
        run(n);
}

static bool may_switch(int n)
{
    bool other_could = now.last >= 0 && now.last != n && ways(&now.thread[now.last]) > 0;
    return allowed < 0 || !other_could || now.preemptions < allowed;
}

/* A bit for each choice from here; *goes_on* is whether any is a step and not a death. */
static uint64_t choices_here(bool *goes_on)
{
    uint64_t bits = 0;
    *goes_on = false;
    for (int n = 0; n < now.threads; n++) {
        struct thread *thread = &now.thread[n];
        uint64_t mine = ways(thread) && may_switch(n) ? (1u << ways(thread)) - 1 : 0;
        if (thread->buffered)
            mine |= 1u << FLUSH;
        if (thread->life == ASLEEP && now.killed && thread->slices < SLICES)
            mine |= 1u << SLICE;
        *goes_on |= mine != 0;
        bool lives = thread->life == RUNNING || thread->life == ASLEEP;
        if (lives && !now.killed && (scenario->killable >> n & 1))
            mine |= 1u << DIE;
        bits |= mine << (CHOICES * n);
    }
    return bits;
}

static void look_at_the_end(void)
{
    for (int n = 0; n < now.threads; n++)
        if (now.thread[n].life == ASLEEP && !now.killed) /* else it looks who lives, after its slice */
            broken("thread %d sleeps, and nobody will wake it", n);
    if (scenario->finish)
        scenario->finish();
}

static void push(void)
{
    if (++depth == (int)(sizeof path / sizeof *path))
        give_up("too deep");
    struct frame *frame = path[depth] = malloc(sizeof *frame);
    snprintf(frame->text, sizeof frame->text, "%s", text);
    bool goes_on;
    frame->choices = choices_here(&goes_on);
    if (!goes_on)
        look_at_the_end();
    save(frame);
}

static void start(void)
{
    now.last = -1;
    if (scenario->prepare)
        scenario->prepare();
    for (; scenario->threads[now.threads]; now.threads++) {
        struct thread *thread = &now.thread[now.threads];
        getcontext(&thread->context);
        thread->context.uc_stack.ss_sp = stacks[now.threads];
        thread->context.uc_stack.ss_size = STACK;
        makecontext(&thread->context, body, 0);
    }
    for (int n = 0; n < now.threads; n++)
        run(n); /* up to its first step */
}

static unsigned long explore(unsigned long limit)
{
    unsigned long steps = 0;
    start();
    push();
    while (depth > 0) {
        struct frame *top = path[depth];
        if (top->choices == 0) {
            free(top->copy);
            free(top);
            depth--;
            continue;
        }
        int bit = __builtin_ctzll(top->choices);
        top->choices &= top->choices - 1;
        restore(top);
        make(bit / CHOICES, bit % CHOICES);
        steps++;
        forget_the_past();
        if (is_new(fingerprint(allowed)))
            push();
        if (visited.count > limit)
            give_up("too many states");
    }
    return steps;
}

int main(int count, char **words)
{
    bool list = false;
    unsigned long limit = 50000000;
    for (int n = 1; n < count; n++) {
        if (strcmp(words[n], "--tso") == 0)
            model = TSO;
        else if (strcmp(words[n], "--sites") == 0)
            list = true;
        else if (strcmp(words[n], "--weaken") == 0 && n + 1 < count)
            weaken = words[++n];
        else if (strcmp(words[n], "--preemptions") == 0 && n + 1 < count)
            allowed = atoi(words[++n]);
        else if (strcmp(words[n], "--states") == 0 && n + 1 < count)
            limit = strtoul(words[++n], NULL, 10);
        else
            for (int s = 0; scenarios[s]; s++)
                if (strcmp(scenarios[s]->name, words[n]) == 0)
                    scenario = scenarios[s];
    }
    if (!scenario) {
        for (int s = 0; scenarios[s]; s++)
            printf("%s\n", scenarios[s]->name);
        return count > 1 ? 2 : 0;
    }
    unsigned long steps = explore(limit);
    printf("%s: %zu states, %lu steps, nothing broken\n", scenario->name, visited.count, steps);
    for (int n = 0; list && n < seen_sites; n++)
        printf("site %s %s\n", site_name(sites[n]), name_of(sites[n]->order));
    return 0;
}
