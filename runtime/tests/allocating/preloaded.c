/* A malloc that knows its blocks, and ends the process at others: the program brings it (LD_PRELOAD). */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MARK 0x5ea1ed5ea1ed5ea1UL
enum { CLASSES = 48, HEAD = 32, CHUNK = 16 << 20 };

/* Before each block. */
struct head { uint64_t mark; uint64_t class; char *start; uint64_t size; };

static char *chunk, *chunk_end;
static char *free_ones[CLASSES];
static volatile int taken;
static volatile long calls;

long preloaded_calls(void) { return calls; }

static void lock(void) { while (__atomic_exchange_n(&taken, 1, __ATOMIC_ACQUIRE)) ; }
static void unlock(void) { __atomic_store_n(&taken, 0, __ATOMIC_RELEASE); }

static void *take(size_t size, size_t alignment) {
    if (size > (1UL << 46) || alignment > (1UL << 40)) { errno = ENOMEM; return NULL; }
    size_t whole = size + alignment + HEAD, class = 6;
    while (((size_t)1 << class) < whole) ++class;
    size_t length = (size_t)1 << class;
    lock();
    ++calls;
    char *start = class < CLASSES ? free_ones[class] : NULL;
    if (start) free_ones[class] = *(char **)start;
    else if (length > CHUNK) {
        start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED) start = NULL;
    } else {
        if (chunk_end - chunk < (ptrdiff_t)length) {
            chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            chunk_end = chunk == MAP_FAILED ? (chunk = NULL) : chunk + CHUNK;
        }
        if ((start = chunk)) chunk += length;
    }
    unlock();
    if (!start) { errno = ENOMEM; return NULL; }
    char *block = (char *)(((uintptr_t)start + HEAD + alignment - 1) & -alignment);
    *((struct head *)block - 1) = (struct head){MARK, class, start, length - (block - start)};
    return block;
}

static struct head *head_of(void *block) {
    static const char text[] = "a block of another malloc\n";
    struct head *head = (struct head *)block - 1;
    if (head->mark != MARK) {
        if (write(2, text, sizeof text - 1)) __builtin_trap();
        __builtin_trap();
    }
    return head;
}

void *malloc(size_t size) { return take(size, 16); }
void *memalign(size_t alignment, size_t size) { return take(size, alignment < 16 ? 16 : alignment); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **place, size_t alignment, size_t size) {
    void *block = memalign(alignment, size);
    if (!block) return ENOMEM;
    *place = block;
    return 0;
}
void *calloc(size_t count, size_t size) {
    size_t whole;
    if (__builtin_mul_overflow(count, size, &whole)) { errno = ENOMEM; return NULL; }
    void *block = malloc(whole);
    return block ? memset(block, 0, whole) : NULL;
}
void free(void *block) {
    if (!block) return;
    struct head *head = head_of(block);
    head->mark = 0;
    lock();
    char *start = head->start;
    uint64_t class = head->class;
    *(char **)start = free_ones[class];
    free_ones[class] = start;
    unlock();
}
void *realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    if (!size) { free(block); return NULL; }
    size_t length = head_of(block)->size;
    if (length >= size) return block;
    void *new = malloc(size);
    if (new) { memcpy(new, block, length); free(block); }
    return new;
}
size_t malloc_usable_size(void *block) { return block ? head_of(block)->size : 0; }
