/* A library's memory on devices. */
#include <stddef.h>

struct extent { size_t width, height, depth; };
struct pitched { void *address; size_t pitch, width, height; };

extern int cudaSetDevice(int);
extern int cudaMalloc(void **, size_t), cudaMallocAsync(void **, size_t, void *), cudaFree(void *), cudaFreeAsync(void *, void *);
extern int cudaMallocPitch(void **, size_t *, size_t, size_t), cudaMalloc3D(struct pitched *, struct extent);
extern int cudaHostAlloc(void **, size_t, unsigned), cudaFreeHost(void *);
extern int cudaStreamCreateWithPriority(void **, unsigned, int), cudaStreamDestroy(void *);
extern int cudaEventCreateWithFlags(void **, unsigned), cudaEventDestroy(void *);
extern int cudaMemGetInfo(size_t *, size_t *);
extern int cudaStreamBeginCapture(void *, int), cudaStreamEndCapture(void *, void **), cudaDeviceSynchronize(void);

/* Addresses of memory, or 0 when out of memory. */
long take(size_t size) { void *memory = NULL; return cudaMalloc(&memory, size) == 2 ? 0 : (long)memory; }
long take_later(size_t size) { void *memory = NULL; return cudaMallocAsync(&memory, size, NULL) == 2 ? 0 : (long)memory; }
int give(long memory) { return cudaFree((void *)memory); }
int give_later(long memory) { return cudaFreeAsync((void *)memory, NULL); }

long take_rows(size_t width, size_t height) {
    void *memory = NULL;
    size_t pitch;
    return cudaMallocPitch(&memory, &pitch, width, height) == 2 ? 0 : (long)memory;
}

long take_box(size_t width, size_t height, size_t depth) {
    struct pitched result = { 0 };
    return cudaMalloc3D(&result, (struct extent){ width, height, depth }) == 2 ? 0 : (long)result.address;
}

long unused(void) { size_t unused, total; return cudaMemGetInfo(&unused, &total) ? -1 : (long)unused; }
long total(void) { size_t unused, total; return cudaMemGetInfo(&unused, &total) ? -1 : (long)total; }

/* Leaves one thing of each kind on a device. */
int leave(int device) {
    void *memory, *other, *host, *stream, *event;
    return cudaSetDevice(device) || cudaMalloc(&memory, 64) || cudaMallocAsync(&other, 64, NULL) || cudaHostAlloc(&host, 64, 3)
        || cudaStreamCreateWithPriority(&stream, 1, 0) || cudaEventCreateWithFlags(&event, 2) || cudaSetDevice(0);
}

/* Gives everything back that it takes. */
int use(void) {
    void *memory, *host, *stream, *event;
    return cudaMalloc(&memory, 64) || cudaHostAlloc(&host, 64, 3) || cudaStreamCreateWithPriority(&stream, 1, 0)
        || cudaEventCreateWithFlags(&event, 2) || cudaFree(memory) || cudaFreeHost(host) || cudaStreamDestroy(stream)
        || cudaEventDestroy(event);
}

/* Captures in the global mode. */
static void *stream;
int begin_capture(void) { return cudaStreamCreateWithPriority(&stream, 1, 0) || cudaStreamBeginCapture(stream, 0); }
int end_capture(void) { void *graph; return cudaStreamEndCapture(stream, &graph); }
int wait_for_device(void) { return cudaDeviceSynchronize(); }
int take_a_little(void) { void *memory; return cudaMalloc(&memory, 64); }
