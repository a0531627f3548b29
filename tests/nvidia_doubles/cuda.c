/* A double of libcuda.so.1: the calls that are used, with the signatures and codes of cuda.h. It counts
 * the GPUs backwards, as a driver may that puts the fastest first. */
#include "gpus.h"

enum { SUCCESS = 0, INVALID = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, UNKNOWN = 999, HOST_NUMA_ID = 134 };

static struct gpu all[16];
static int started, count;

int cuInit(unsigned flags)
{
    count = gpus(all, 16);
    if (!count || flags)
        return NO_DEVICE;
    started = 1;
    return SUCCESS;
}
int cuDeviceGetCount(int *n)
{
    if (getenv("DOUBLE_CUDA_REFUSES"))
        return UNKNOWN;
    return started ? (*n = count, SUCCESS) : NOT_INITIALIZED;
}
int cuDeviceGet(int *device, int i) { return i < count ? (*device = i, SUCCESS) : INVALID; }

int cuDeviceGetPCIBusId(char *to, int room, int device)
{
    snprintf(to, room, "%s", all[count - 1 - device].address);
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const char *host = all[count - 1 - device].host;
    if (attribute != HOST_NUMA_ID || !strcmp(host, "-"))
        return INVALID;
    *value = atoi(host);
    return SUCCESS;
}
