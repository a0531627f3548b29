/* Becoming another program, with the signals that Python ignores at their default. */
#ifndef ZEROSYS_EXEC_H
#define ZEROSYS_EXEC_H

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "_result.h"

/* Python ignores these two when it starts, and an ignored signal is inherited. */
static const int zs_ignored[] = {SIGPIPE, SIGXFSZ};
#define ZS_IGNORED (sizeof zs_ignored / sizeof *zs_ignored)

/* Returns only with -errno, and then leaves the signals as they were. */
static inline ssize_t zs_execvpe(const char *file, char **arguments, char **environment)
{
    struct sigaction before[ZS_IGNORED], usual = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < ZS_IGNORED; i++)
        sigaction(zs_ignored[i], &usual, &before[i]);
    ssize_t rc = zs_or_errno(execvpe(file, arguments, environment));
    for (size_t i = 0; i < ZS_IGNORED; i++)
        sigaction(zs_ignored[i], &before[i], NULL);
    return rc;
}

#endif
