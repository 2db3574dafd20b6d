// The structures of DLPack that hydrozoa.h passes, for programs that do not have dlpack.h. A program that has it
// includes that file instead, or before this one.
//
// Source: include/dlpack/dlpack.h of github.com/dmlc/dlpack, version 0.8, which later versions keep.

#ifndef HYDROZOA_DLPACK_H
#define HYDROZOA_DLPACK_H

#ifndef DLPACK_DLPACK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Where memory is. `device_type` is kDLCPU or another number of dlpack.h's.
typedef struct DLDevice {
    int32_t device_type;
    int32_t device_id;
} DLDevice;

// The type of an element. `code` is kDLInt or another number of dlpack.h's.
typedef struct DLDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} DLDataType;

enum { kDLCPU = 1, kDLCUDA = 2 };
enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLComplex = 5, kDLBool = 6 };

typedef struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    // `ndim` extents, in elements.
    int64_t *shape;
    // In elements. NULL means row by row.
    int64_t *strides;
    // From `data` to the first element, in bytes.
    uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    // The maker's own.
    void *manager_ctx;
    // Frees the structure and the memory. May be NULL if there is nothing to free.
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

#ifdef __cplusplus
}
#endif

#endif  // DLPACK_DLPACK_H_

#endif  // HYDROZOA_DLPACK_H
