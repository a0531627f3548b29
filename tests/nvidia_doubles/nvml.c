/* A double of libnvidia-ml.so.1: the calls that are used, with the signatures and codes of nvml.h. */
#include "gpus.h"

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, NO_DRIVER = 9 };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; };

static struct gpu all[16];
static int started, count;

int nvmlInit_v2(void)
{
    if (getenv("DOUBLE_NVML_REFUSES"))
        return NO_DRIVER;
    started++;
    count = gpus(all, 16);
    return SUCCESS;
}
int nvmlShutdown(void) { return started-- > 0 ? SUCCESS : 1; }
const char *nvmlErrorString(int code) { return code == NO_DRIVER ? "Driver Not Loaded" : "refused"; }
int nvmlDeviceGetCount_v2(unsigned *n) { return *n = count, SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct gpu **gpu)
{
    return (int)i < count ? (*gpu = &all[i], SUCCESS) : INVALID;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, struct gpu **gpu)
{
    unsigned wanted[3], one[3];
    if (sscanf(address, "%x:%x:%x", wanted, wanted + 1, wanted + 2) != 3)
        return INVALID;
    for (int i = 0; i < count; i++)
        if (sscanf(all[i].address, "%x:%x:%x", one, one + 1, one + 2) == 3 && !memcmp(one, wanted, sizeof one))
            return *gpu = &all[i], SUCCESS;
    return NOT_FOUND;
}

/* MIG devices are MIG-0 to MIG-9: parts of the GPU with that number. */
int nvmlDeviceGetHandleByUUID(const char *uuid, struct gpu **gpu)
{
    int i = strncmp(uuid, "MIG-", 4) ? -1 : atoi(uuid + 4);
    return i >= 0 && i < count ? (*gpu = &all[i], SUCCESS) : NOT_FOUND;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct gpu *part, struct gpu **whole) { return *whole = part, SUCCESS; }
int nvmlDeviceGetUUID(struct gpu *gpu, char *to, unsigned room) { return snprintf(to, room, "%s", gpu->uuid), SUCCESS; }
int nvmlDeviceGetName(struct gpu *gpu, char *to, unsigned room) { return snprintf(to, room, "%s", gpu->model), SUCCESS; }

int nvmlDeviceGetPciInfo_v3(struct gpu *gpu, struct pci *to)
{
    memset(to, 0, sizeof *to);
    if (sscanf(gpu->address, "%x:%x:%x", &to->domain, &to->bus, &to->device) != 3)
        return INVALID;
    snprintf(to->address, sizeof to->address, "%s", gpu->address);
    return SUCCESS;
}

int nvmlDeviceGetMemoryAffinity(struct gpu *gpu, unsigned words, unsigned long *nodes, unsigned scope)
{
    if (*gpu->nodes == '-' || scope != 0 || words != 16)
        return NOT_SUPPORTED;
    memset(nodes, 0, words * sizeof *nodes);
    nodes[0] = strtoul(gpu->nodes, NULL, 0);
    return SUCCESS;
}
