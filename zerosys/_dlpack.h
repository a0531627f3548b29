/* The structures of DLPack 1.0 (and 0.8, "unversioned"), as its specification lays them out. */
#ifndef ZEROSYS_DLPACK_H
#define ZEROSYS_DLPACK_H

#include <stdint.h>

typedef struct {
    int32_t device_type;
    int32_t device_id;
} ZsDLDevice;

typedef struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} ZsDLDataType;

typedef struct {
    void *data;
    ZsDLDevice device;
    int32_t ndim;
    ZsDLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* NULL: C-contiguous */
    uint64_t byte_offset;
} ZsDLTensor;

typedef struct ZsDLManaged {
    ZsDLTensor tensor;
    void *manager;
    void (*deleter)(struct ZsDLManaged *self);
} ZsDLManaged;

typedef struct ZsDLVersioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct ZsDLVersioned *self);
    uint64_t flags;
    ZsDLTensor tensor;
} ZsDLVersioned;

#define ZS_DLPACK_READ_ONLY 1ULL

#endif
