/* Work with malloc and free, on threads of its own. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { LIVE = 1000 };

struct work { int size, live; long pairs; double nanoseconds; };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *begin(void *argument) {
    struct work *work = argument;
    char *blocks[LIVE] = {0};
    uint64_t random = 88172645463325252u;
    double start = now();
    for (long pair = 0; pair < work->pairs; ++pair) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        /* Small ones are more frequent: each power of two is as likely as the next. */
        int size = work->size ? work->size : 16 + (int)((random >> 40) & ((16u << ((random >> 32) & 7)) * 2 - 1));
        char *volatile *place = (char *volatile *)&blocks[random % work->live];
        free(*place);
        *place = malloc(size);
        **place = 1;
    }
    work->nanoseconds = now() - start;
    for (int i = 0; i < LIVE; ++i) free(blocks[i]);
    return NULL;
}

/* The processor's nanoseconds of a pair on so many threads; sizes are mixed if `size` is 0. Of `live` blocks one is replaced at a time. */
double pairs(int threads, int size, int live, long count) {
    pthread_t ids[64];
    struct work works[64];
    double sum = 0;
    for (int i = 0; i < threads; ++i) {
        works[i] = (struct work){size, live, count, 0};
        if (pthread_create(&ids[i], NULL, begin, &works[i])) abort();
    }
    for (int i = 0; i < threads; ++i) {
        pthread_join(ids[i], NULL);
        sum += works[i].nanoseconds;
    }
    return sum / threads / count;
}
