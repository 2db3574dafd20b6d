/* nvcc's output for a library with three fat binaries: one without variables, one with a constant of a header, and one with a
 * variable that its kernel writes (crt/host_runtime.h and fatbinary_section.h of CUDA 13). */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct wrapper { unsigned magic, version; const char *data; void *name; };
struct dim3 { unsigned x, y, z; };

extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFatBinaryEnd(void **);
extern void __cudaUnregisterFatBinary(void **);
extern void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
extern void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
extern int cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);
extern int cudaLaunchKernelExC(const void *, const void *, void **);
extern int __cudaGetKernel(void **, const void *);
extern int __cudaLaunchKernel(void *, struct dim3, struct dim3, void **, size_t, void *);
extern int cudaFuncGetAttributes(int *, const void *);
extern int cudaFuncSetAttribute(const void *, int, int);
extern int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);
extern int cudaGraphAddKernelNode(void *, void *, void *, size_t, const void *);
extern int cudaGraphAddNode(void *, void *, void *, void *, size_t, const void *);
extern int cudaGetSymbolAddress(void **, const void *);
extern int cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);

#define BINARY(kernel) \
    static const char code_of_##kernel[] __attribute__((aligned(8))) = "code"; \
    static struct wrapper wrapper_of_##kernel = { 0x466243b1, 1, code_of_##kernel, NULL }; \
    static void **handle_of_##kernel; \
    __attribute__((noinline)) static void kernel(void) { __asm__ volatile("# " #kernel); } \
    static void unregister_##kernel(void) { __cudaUnregisterFatBinary(handle_of_##kernel); } \
    static void register_##kernel(void) { \
        handle_of_##kernel = __cudaRegisterFatBinary(&wrapper_of_##kernel); \
        __cudaRegisterFunction(handle_of_##kernel, (char *)kernel, #kernel, #kernel, -1, 0, 0, 0, 0, 0); \
    } \
    static void end_##kernel(void) { \
        __cudaRegisterFatBinaryEnd(handle_of_##kernel); \
        atexit(unregister_##kernel); \
    }

BINARY(plain)
BINARY(tagged)
BINARY(counting)

static const char tag = 1;
static int counter;

__attribute__((constructor)) static void begin(void) {
    register_plain();
    end_plain();
    register_tagged();
    __cudaRegisterVar(handle_of_tagged, (char *)&tag, "tag", "tag", 0, 1, 0, 0);
    end_tagged();
    register_counting();
    __cudaRegisterVar(handle_of_counting, (char *)&counter, "counter", "counter", 0, sizeof counter, 0, 0);
    end_counting();
}

static void *const KERNELS[] = { plain, tagged, counting };

/* Launches a kernel in each of the ways. It is told how often it counts. */
int launch(int which, int times) {
    void *kernel = KERNELS[which], *arguments[] = { &times };
    return cudaLaunchKernel(kernel, (struct dim3){ 1, 2, 3 }, (struct dim3){ 4, 5, 6 }, arguments, 7, (void *)8);
}

int launch_by_configuration(int which, int times) {
    return cudaLaunchKernelExC("configuration", KERNELS[which], (void *[]){ &times });
}

int launch_by_handle(int which, int times) {
    void *kernel = NULL;
    int status = __cudaGetKernel(&kernel, KERNELS[which]);
    struct dim3 one = { 1, 1, 1 };
    status = status ? status : cudaLaunchKernelExC("configuration", kernel, (void *[]){ &times });
    return status ? status : __cudaLaunchKernel(kernel, one, one, (void *[]){ &times }, 0, NULL);
}

struct node { const void *kernel; struct dim3 grid, block; unsigned shared; void **arguments, **extra; };

int launch_by_node(int which, int times) {
    struct node node = { .kernel = KERNELS[which], .arguments = (void *[]){ &times } };
    int status = cudaGraphAddKernelNode(NULL, NULL, NULL, 9, &node);
    char parameters[256] = { 0 };
    memcpy(parameters + 16, &node, sizeof node);
    status = status ? status : cudaGraphAddNode(NULL, NULL, NULL, NULL, 9, parameters);
    return status ? status : node.kernel != KERNELS[which];
}

int attribute(int which) { int value = -1; return cudaFuncGetAttributes(&value, KERNELS[which]) ? -1 : value; }
int set_attribute(int which, int value) { return cudaFuncSetAttribute(KERNELS[which], 8, value); }

int occupancy(int which) {
    int value = 0;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, KERNELS[which], 30, 4) ? -1 : value;
}

int counted(void) { int *memory = NULL; return cudaGetSymbolAddress((void **)&memory, &counter) ? -1 : *memory; }
int set_counter(int value) { return cudaMemcpyToSymbol(&counter, &value, sizeof value, 0, 1); }
int set_tag(char value) { return cudaMemcpyToSymbol(&tag, &value, 1, 0, 1); }
long address_of_tag(void) { void *memory = NULL; return cudaGetSymbolAddress(&memory, &tag) ? 0 : (long)memory; }
