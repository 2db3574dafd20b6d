/* A CUDA runtime whose one device is main memory, for machines without a GPU. Preloaded, it answers instead of
 * libcudart.so.13 what torch 2.11 asks of it to allocate and to copy; there are no kernels.
 *
 * It is as unhelpful as CUDA may be. Device addresses cannot be touched by the program. Queued work runs only when somebody waits
 * for it: on that stream, for an event behind it, or for the device. Streams do not wait for each other, nor for the null stream;
 * torch's own streams (cudaStreamNonBlocking) do not either.
 *
 * Signatures, values and the layout of cudaDeviceProp are those of driver_types.h and cuda_runtime_api.h of CUDA 13.0. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCCESS = 0, MEMORY_ALLOCATION = 2, INVALID_DEVICE = 101, INVALID_HANDLE = 400, NOT_READY = 600 };
enum { HOST = 1, DEVICE = 2 };

/* Allocated memory. Of the device's, `address` is what programs see and `pages` is where it is. */
struct block {
    struct block *next;
    int type;
    char *address, *pages;
    size_t size;
};

struct stream;

/* A copy, or the wait for another stream. */
struct operation {
    struct operation *next;
    char *to;
    const char *from;
    size_t size;
    /* A copy of `from`, made when the operation was queued. */
    char *staged;
    struct stream *other;
    unsigned long mark;
};

struct stream {
    struct stream *next;
    int destroyed;
    struct operation *first, **last;
    unsigned long queued, done;
};

struct event {
    struct stream *stream;
    unsigned long mark;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;
static struct stream null_stream = { .last = &null_stream.first }, *streams = &null_stream;
static size_t uploaded, live;
static int live_things;

#define LOCKED(...) do { pthread_mutex_lock(&mutex); __VA_ARGS__ pthread_mutex_unlock(&mutex); } while (0)

static struct block *block_of(const void *address) {
    for (struct block *block = blocks; block; block = block->next)
        if ((char *)address >= block->address && (char *)address < block->address + block->size)
            return block;
    return NULL;
}

static int type_of(const void *address) {
    struct block *block = block_of(address);
    return block ? block->type : 0;
}

static char *pages_of(const void *address) {
    struct block *block = block_of(address);
    return block ? block->pages + ((char *)address - block->address) : (char *)address;
}

static void run(struct stream *stream, unsigned long mark) {
    while (stream->done < mark && stream->first) {
        struct operation *operation = stream->first;
        stream->first = operation->next;
        if (!stream->first)
            stream->last = &stream->first;
        stream->done++;
        if (operation->other)
            run(operation->other, operation->mark);
        else
            memcpy(operation->to, operation->from, operation->size);
        free(operation->staged);
        free(operation);
    }
}

static void run_all(void) {
    for (struct stream *stream = streams; stream; stream = stream->next)
        run(stream, stream->queued);
}

static struct stream *stream_of(struct stream *stream) {
    /* 1 is the legacy default stream by name (cudaStreamLegacy). */
    return (size_t)stream <= 1 ? &null_stream : stream;
}

static void queue(struct stream *stream, struct operation operation) {
    struct operation *queued = malloc(sizeof *queued);
    *queued = operation;
    queued->next = NULL;
    *stream->last = queued;
    stream->last = &queued->next;
    stream->queued++;
}

/* Queries for tests. */
size_t rehearsal_uploaded(void) { size_t size; LOCKED(size = uploaded;); return size; }
size_t rehearsal_live(void) { size_t size; LOCKED(size = live;); return size; }

/* How many streams, events and blocks of main memory there are. */
int rehearsal_things(void) { int count; LOCKED(count = live_things;); return count; }

int cudaMalloc(void **out, size_t size) {
    size = (size + 4095) & ~4095ul;
    int file = memfd_create("device", 0);
    if (file < 0 || ftruncate(file, size))
        return MEMORY_ALLOCATION;
    struct block *block = malloc(sizeof *block);
    block->type = DEVICE;
    block->size = size;
    block->address = mmap(NULL, size, PROT_NONE, MAP_SHARED, file, 0);
    block->pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    *out = block->address;
    LOCKED(block->next = blocks; blocks = block; live += size;);
    return SUCCESS;
}

int cudaHostAlloc(void **out, size_t size, unsigned flags) {
    struct block *block = malloc(sizeof *block);
    block->type = HOST;
    block->size = (size + 4095) & ~4095ul;
    block->address = block->pages = aligned_alloc(4096, block->size);
    *out = block->address;
    LOCKED(block->next = blocks; blocks = block; live_things++;);
    return SUCCESS;
}

static int release(void *address) {
    LOCKED(
        run_all();
        for (struct block **place = &blocks; *place; place = &(*place)->next) {
            struct block *block = *place;
            if (block->address != address)
                continue;
            *place = block->next;
            if (block->type == DEVICE) {
                munmap(block->address, block->size);
                munmap(block->pages, block->size);
                live -= block->size;
            } else {
                free(block->pages);
                live_things--;
            }
            free(block);
            break;
        }
    );
    return SUCCESS;
}

int cudaFree(void *address) { return release(address); }
int cudaFreeHost(void *address) { return release(address); }

int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, struct stream *stream) {
    stream = stream_of(stream);
    LOCKED(
        int target = type_of(to); int source = type_of(from);
        if (target == DEVICE && source != DEVICE)
            uploaded += size;
        struct operation copy = { .to = pages_of(to), .from = pages_of(from), .size = size };
        /* Pageable memory is read before the call returns. */
        if (source == 0)
            copy.from = copy.staged = memcpy(malloc(size), from, size);
        queue(stream, copy);
        if (target == 0)
            run(stream, stream->queued);
    );
    return SUCCESS;
}

int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
    cudaMemcpyAsync(to, from, size, kind, NULL);
    LOCKED(run(&null_stream, null_stream.queued););
    return SUCCESS;
}

int cudaMemGetInfo(size_t *unused, size_t *total) {
    *total = 1ul << 34;
    *unused = *total - rehearsal_live();
    return SUCCESS;
}

struct attributes { int type, device; void *device_address, *host_address; };

int cudaPointerGetAttributes(struct attributes *out, const void *address) {
    LOCKED(out->type = type_of(address););
    out->device = out->type ? 0 : -1;
    out->device_address = out->type ? (void *)address : NULL;
    out->host_address = out->type == HOST ? (void *)address : NULL;
    return SUCCESS;
}

int cudaGetDeviceCount(int *out) { *out = 1; return SUCCESS; }
int cudaGetDevice(int *out) { *out = 0; return SUCCESS; }
int cudaSetDevice(int device) { return device == 0 ? SUCCESS : INVALID_DEVICE; }
int cudaDeviceCanAccessPeer(int *out, int from, int to) { *out = 0; return SUCCESS; }
int cudaDriverGetVersion(int *out) { *out = 13000; return SUCCESS; }
int cudaRuntimeGetVersion(int *out) { *out = 13000; return SUCCESS; }
int cudaGetLastError(void) { return SUCCESS; }
int cudaPeekAtLastError(void) { return SUCCESS; }
int cudaThreadExchangeStreamCaptureMode(int *mode) { return SUCCESS; }

int cudaDeviceGetAttribute(int *out, int attribute, int device) {
    *out = attribute == 75 /* cudaDevAttrComputeCapabilityMajor */ ? 9 : 0;
    return SUCCESS;
}

int cudaGetDeviceProperties(char *out, int device) {
    memset(out, 0, 1008);
    strcpy(out, "main memory");
    *(size_t *)(out + 288) = 1ul << 34; /* totalGlobalMem */
    *(int *)(out + 308) = 32;           /* warpSize */
    *(int *)(out + 320) = 1024;         /* maxThreadsPerBlock */
    *(int *)(out + 360) = 9;            /* major */
    *(int *)(out + 384) = 1;            /* multiProcessorCount */
    *(int *)(out + 604) = 1024;         /* maxThreadsPerMultiProcessor */
    return SUCCESS;
}

int cudaDeviceSynchronize(void) { LOCKED(run_all();); return SUCCESS; }
int cudaDeviceGetStreamPriorityRange(int *low, int *high) { *low = 0; *high = -1; return SUCCESS; }

int cudaStreamCreateWithPriority(struct stream **out, unsigned flags, int priority) {
    struct stream *stream = calloc(1, sizeof *stream);
    stream->last = &stream->first;
    LOCKED(stream->next = streams->next; streams->next = stream; live_things++;);
    *out = stream;
    return SUCCESS;
}

/* It stays, since other streams may wait for it. */
int cudaStreamDestroy(struct stream *stream) {
    int before;
    LOCKED(before = stream->destroyed; stream->destroyed = 1; live_things -= !before; run(stream, stream->queued););
    return before ? INVALID_HANDLE : SUCCESS;
}

int cudaStreamIsCapturing(struct stream *stream, int *out) { *out = 0; return SUCCESS; }

int cudaStreamSynchronize(struct stream *stream) {
    stream = stream_of(stream);
    LOCKED(run(stream, stream->queued););
    return SUCCESS;
}

int cudaStreamQuery(struct stream *stream) {
    int done;
    stream = stream_of(stream);
    LOCKED(done = stream->done == stream->queued;);
    return done ? SUCCESS : NOT_READY;
}

int cudaStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags) {
    if (event->stream)
        LOCKED(queue(stream_of(stream), (struct operation){ .other = event->stream, .mark = event->mark }););
    return SUCCESS;
}

int cudaEventCreateWithFlags(struct event **out, unsigned flags) {
    *out = calloc(1, sizeof **out);
    LOCKED(live_things++;);
    return SUCCESS;
}

int cudaEventDestroy(struct event *event) { LOCKED(live_things--;); free(event); return SUCCESS; }

int cudaEventRecordWithFlags(struct event *event, struct stream *stream, unsigned flags) {
    event->stream = stream_of(stream);
    LOCKED(event->mark = event->stream->queued;);
    return SUCCESS;
}

int cudaEventRecord(struct event *event, struct stream *stream) {
    return cudaEventRecordWithFlags(event, stream, 0);
}

int cudaEventQuery(struct event *event) {
    int done = 1;
    if (event->stream)
        LOCKED(done = event->stream->done >= event->mark;);
    return done ? SUCCESS : NOT_READY;
}

int cudaEventSynchronize(struct event *event) {
    if (event->stream)
        LOCKED(run(event->stream, event->mark););
    return SUCCESS;
}
