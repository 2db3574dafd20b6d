/* A CUDA runtime whose kernels are names. It keeps the pointers that it is given, as CUDA's does, and reads behind them when a kernel
 * is launched. It exists once in the process, by its file's name. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NO_MEMORY = 2, INVALID_VALUE = 1, INVALID_SYMBOL = 13, INVALID_KERNEL = 98 };
enum { ROOM = 256 };

struct wrapper { unsigned magic, version; const char *data; void *name; };
struct dim3 { unsigned x, y, z; };
struct binary { const struct wrapper *wrapper; int ended, alive; };
struct kernel { struct binary *binary; const void *host; const char *name; int launches, attribute; };
struct variable { struct binary *binary; const void *host; const char *name; size_t size; char *memory; };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct binary binaries[ROOM];
static struct kernel kernels[ROOM];
static struct variable variables[ROOM];
static int binary_count, kernel_count, variable_count;

/* Functions for tests. */
int registered_binaries(void) { return binary_count; }
int registered_kernels(void) { return kernel_count; }
int registered_variables(void) { return variable_count; }

int alive_binaries(void) {
    int count = 0;
    for (int i = 0; i < binary_count; i++)
        count += binaries[i].alive && binaries[i].ended;
    return count;
}

/* Launches of all kernels with this name. */
int launches(const char *name) {
    int count = 0;
    for (int i = 0; i < kernel_count; i++)
        count += strcmp(kernels[i].name, name) ? 0 : kernels[i].launches;
    return count;
}

void *__cudaRegisterFatBinary(struct wrapper *wrapper) {
    pthread_mutex_lock(&mutex);
    struct binary *binary = &binaries[binary_count++];
    pthread_mutex_unlock(&mutex);
    *binary = (struct binary){ wrapper, 0, 1 };
    return binary;
}

void __cudaRegisterFatBinaryEnd(struct binary *binary) { binary->ended = 1; }
void __cudaUnregisterFatBinary(struct binary *binary) { binary->alive = 0; }

void __cudaRegisterFunction(struct binary *binary, const char *host, char *device, const char *name, int limit, void *thread,
                            void *block, void *dimension, void *grid, int *size) {
    pthread_mutex_lock(&mutex);
    kernels[kernel_count++] = (struct kernel){ binary, host, name, 0, 48 };
    pthread_mutex_unlock(&mutex);
}

void __cudaRegisterVar(struct binary *binary, char *host, char *device, const char *name, int external, size_t size, int constant,
                       int global) {
    pthread_mutex_lock(&mutex);
    variables[variable_count++] = (struct variable){ binary, host, name, size, calloc(1, size) };
    pthread_mutex_unlock(&mutex);
}

static struct kernel *kernel_of(const void *host) {
    for (int i = 0; i < kernel_count; i++)
        if (kernels[i].host == host && kernels[i].binary->alive && kernels[i].binary->ended)
            return &kernels[i];
    return NULL;
}

static struct variable *variable_of(const void *host) {
    for (int i = 0; i < variable_count; i++)
        if (variables[i].host == host && variables[i].binary->alive)
            return &variables[i];
    return NULL;
}

static int run(struct kernel *kernel, void **arguments) {
    if (!kernel)
        return INVALID_KERNEL;
    /* The code is read when it is loaded, which may be late. */
    if (kernel->binary->wrapper->magic != 0x466243b1 || strcmp(kernel->binary->wrapper->data, "code"))
        abort();
    pthread_mutex_lock(&mutex);
    kernel->launches += *(int *)arguments[0];
    for (int i = 0; i < variable_count; i++)
        if (variables[i].binary == kernel->binary && variables[i].size == sizeof(int))
            *(int *)variables[i].memory += 1;
    pthread_mutex_unlock(&mutex);
    return SUCCESS;
}

int cudaLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, void *stream) {
    if (grid.x != 1 || grid.y != 2 || grid.z != 3 || block.x != 4 || block.y != 5 || block.z != 6 || shared != 7
        || stream != (void *)8)
        return INVALID_VALUE;
    return run(kernel_of(host), arguments);
}

int __cudaGetKernel(struct kernel **out, const void *host) {
    *out = kernel_of(host);
    return *out ? SUCCESS : INVALID_KERNEL;
}

int __cudaLaunchKernel(struct kernel *kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, void *stream) {
    return run(kernel, arguments);
}

int cudaLaunchKernelExC(const void *configuration, const void *host, void **arguments) {
    /* A kernel's handle is as good as its name. */
    struct kernel *kernel = (struct kernel *)host;
    return run(kernel >= kernels && kernel < kernels + ROOM ? kernel : kernel_of(host), arguments);
}

int cudaFuncGetAttributes(int *out, const void *host) {
    struct kernel *kernel = kernel_of(host);
    if (kernel)
        *out = kernel->attribute;
    return kernel ? SUCCESS : INVALID_KERNEL;
}

int cudaFuncSetAttribute(const void *host, int attribute, int value) {
    struct kernel *kernel = kernel_of(host);
    if (kernel && attribute == 8)
        kernel->attribute = value;
    return kernel ? SUCCESS : INVALID_KERNEL;
}

int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out, const void *host, int size, size_t shared) {
    *out = size + (int)shared;
    return kernel_of(host) ? SUCCESS : INVALID_KERNEL;
}

struct node { const void *host; struct dim3 grid, block; unsigned shared; void **arguments, **extra; };

int cudaGraphAddKernelNode(void *out, void *graph, void *before, size_t count, const struct node *node) {
    return count == 9 ? run(kernel_of(node->host), node->arguments) : INVALID_VALUE;
}

int cudaGraphAddNode(void *out, void *graph, void *before, void *edges, size_t count, const void *node) {
    const struct node *kernel = (const struct node *)((const char *)node + 16);
    return count == 9 ? run(kernel_of(kernel->host), kernel->arguments) : INVALID_VALUE;
}

int cudaGetSymbolAddress(void **out, const void *host) {
    struct variable *variable = variable_of(host);
    if (variable)
        *out = variable->memory;
    return variable ? SUCCESS : INVALID_SYMBOL;
}

int cudaMemcpyToSymbol(const void *host, const void *from, size_t size, size_t offset, int kind) {
    struct variable *variable = variable_of(host);
    if (variable)
        memcpy(variable->memory + offset, from, size);
    return variable ? SUCCESS : INVALID_SYMBOL;
}

/* Two devices of a mebibyte each: what there is on them, by device. */
enum { DEVICES = 2, SIZE = 1 << 20 };
struct thing { struct thing *next; void *address; size_t size; int device; };
static struct thing *things;
static _Thread_local int device, mode;
static int synchronized[DEVICES];

static int make(void **out, size_t size) {
    struct thing *thing = malloc(sizeof *thing);
    *thing = (struct thing){ things, malloc(16), size, device };
    *out = thing->address;
    things = thing;
    return SUCCESS;
}

static int unmake(void *address) {
    for (struct thing **place = &things; *place; place = &(*place)->next) {
        struct thing *thing = *place;
        if (thing->address != address)
            continue;
        *place = thing->next;
        free(thing->address);
        free(thing);
        return SUCCESS;
    }
    return address ? INVALID_VALUE : SUCCESS;
}

static size_t taken(int on) {
    size_t size = 0;
    for (struct thing *thing = things; thing; thing = thing->next)
        size += thing->device == on ? thing->size : 0;
    return size;
}

int live_things(void) {
    int count = 0;
    for (struct thing *thing = things; thing; thing = thing->next)
        count++;
    return count;
}

int waits_for(int of) { return synchronized[of]; }

/* Captures of graphs: by whom, in which mode (0 is the global one), and whether something forbidden has spoilt it. */
enum { UNSUPPORTED = 900, INVALIDATED = 901 };
struct capture { struct capture *next; void *stream; int *thread, mode, spoilt; };
static struct capture *captures;

static int spoil(int only_global) {
    int count = 0;
    pthread_mutex_lock(&mutex);
    for (struct capture *one = captures; one; one = one->next)
        if (!one->spoilt && !(only_global && (one->mode || one->thread == &device)))
            one->spoilt = ++count;
    pthread_mutex_unlock(&mutex);
    return count ? UNSUPPORTED : SUCCESS;
}

int cudaStreamBeginCapture(void *stream, int how) {
    struct capture *one = malloc(sizeof *one);
    usleep(100000);
    pthread_mutex_lock(&mutex);
    *one = (struct capture){ captures, stream, &device, how, 0 };
    captures = one;
    pthread_mutex_unlock(&mutex);
    return SUCCESS;
}

int cudaStreamEndCapture(void *stream, void **graph) {
    int status = INVALID_VALUE;
    *graph = NULL;
    pthread_mutex_lock(&mutex);
    for (struct capture **place = &captures; *place; place = &(*place)->next) {
        struct capture *one = *place;
        if (one->stream != stream)
            continue;
        status = one->spoilt ? INVALIDATED : SUCCESS;
        *place = one->next;
        free(one);
        break;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

int cudaGetDevice(int *out) { *out = device; return SUCCESS; }
int cudaSetDevice(int other) { device = other; return SUCCESS; }
int cudaDeviceSynchronize(void) { synchronized[device] += mode == 2; return spoil(0); }
int cudaThreadExchangeStreamCaptureMode(int *other) { int before = mode; mode = *other; *other = before; return SUCCESS; }
int cudaMemGetInfo(size_t *unused, size_t *total) { *total = SIZE; *unused = SIZE - taken(device); return SUCCESS; }

int cudaMalloc(void **out, size_t size) {
    int forbidden = spoil(1);
    return forbidden ? forbidden : taken(device) + size > SIZE ? NO_MEMORY : make(out, size);
}

int cudaMallocAsync(void **out, size_t size, void *stream) { return cudaMalloc(out, size); }
int cudaFree(void *address) { return unmake(address); }
int cudaFreeAsync(void *address, void *stream) { return unmake(address); }

int cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height) {
    *pitch = (width + 511) & ~511ul;
    return cudaMalloc(out, *pitch * height);
}

struct extent { size_t width, height, depth; };
struct pitched { void *address; size_t pitch, width, height; };

int cudaMalloc3D(struct pitched *out, struct extent extent) {
    return cudaMalloc(&out->address, extent.width * extent.height * extent.depth);
}

int cudaHostAlloc(void **out, size_t size, unsigned flags) { return flags == 3 ? make(out, 0) : INVALID_VALUE; }
int cudaFreeHost(void *address) { return unmake(address); }
int cudaStreamCreateWithPriority(void **out, unsigned flags, int priority) { return make(out, 0); }
int cudaStreamDestroy(void *stream) {
    void *graph;
    cudaStreamEndCapture(stream, &graph);
    return unmake(stream);
}

int cudaEventCreateWithFlags(void **out, unsigned flags) { return make(out, 0); }
int cudaEventDestroy(void *event) { return unmake(event); }
