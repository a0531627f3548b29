/* The GPUs of the doubles, from the environment: "ADDRESS UUID MODEL NODES HOST;..." where NODES is
 * NVML's mask of nodes (-: it refuses) and HOST the node that CUDA's driver tells (-: it does not know). */
#ifndef GPUS_H
#define GPUS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu {
    char address[32], uuid[80], model[80], nodes[32], host[16];
};

static int gpus(struct gpu *found, int most)
{
    const char *at = getenv("DOUBLE_GPUS");
    int n = 0;
    while (at && *at && n < most) {
        struct gpu *gpu = &found[n];
        if (sscanf(at, "%31s %79s %79s %31s %15[^; ]", gpu->address, gpu->uuid, gpu->model, gpu->nodes, gpu->host) != 5)
            break;
        n++;
        at = strchr(at, ';');
        at = at ? at + 1 : NULL;
    }
    return n;
}

#endif
