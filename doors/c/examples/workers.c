// Calls that no thread of the program's waits for: workers run them, and the results stay until somebody asks.

#include "check.h"
#include <stdatomic.h>
#include <string.h>

enum { WORKERS = 2, CALLS = 6 };

static const char *SOURCE =
    "def run(data, *views):\n"
    "    if data == b'fail':\n"
    "        raise ValueError('as it was asked to')\n"
    "    if views:\n"
    "        return data, bytearray(reversed(views[0]))\n"
    "    return data.upper()\n";

static atomic_int released;

static void release(void *context) {
    atomic_fetch_add(&released, *(int *)context);
}

static hz_job *submit(const hz_workers *workers, uint64_t tag, const char *text, const hz_memory *memory) {
    hz_error *error = NULL;
    hz_job *job = NULL;
    size_t pieces = memory == NULL ? 0 : 1;
    CHECK(hz_workers_submit(workers, SIZE_MAX, tag, text, strlen(text), memory, pieces, &job, &error));
    return job;
}

int main(void) {
    hz_error *error = NULL;
    hz_pool *pool = new_pool(WORKERS, NULL);
    CHECK(hz_pool_register_module(pool, "shouting", SOURCE, &error));
    hz_workers *workers = NULL;
    CHECK(hz_workers_new("shouting", "run", 0, &workers, &error));

    // Calls may be queued before a worker exists. A call that has not begun can be cancelled.
    hz_job *jobs[CALLS];
    const char *texts[CALLS] = {"one", "two", "fail", "four", "five", "six"};
    for (uint64_t tag = 0; tag < CALLS; tag++) {
        jobs[tag] = submit(workers, tag, texts[tag], NULL);
    }
    printf("cancelled: %s\n", hz_job_cancel(jobs[4]) ? "yes" : "no");
    for (size_t worker = 0; worker < WORKERS; worker++) {
        size_t number = 0;
        CHECK(hz_workers_enlist(workers, false, &number, &error));
        CHECK(hz_workers_start(workers, number, pool, number, "shouter", &error));
        hz_workers_open(workers, number);
    }
    hz_pool_free(pool);

    // The collector is told which calls have ended.
    for (size_t ended = 0; ended < CALLS - 1;) {
        uint64_t tags[CALLS];
        size_t count = hz_workers_collect(workers, tags, CALLS);
        for (size_t place = 0; place < count; place++) {
            printf("claimed: %s\n", hz_job_claim(jobs[tags[place]], 0) ? "yes" : "no");
        }
        ended += count;
    }
    for (size_t tag = 0; tag < CALLS; tag++) {
        hz_answer answer;
        if (hz_job_stage(jobs[tag]) == HZ_STAGE_CANCELLED) {
            printf("%s was cancelled\n", texts[tag]);
        } else if (hz_job_answer(jobs[tag], &answer, &error) == HZ_OK) {
            printf("%s: %.*s\n", texts[tag], (int)answer.len, answer.data);
        } else {
            printf("%s: %s: %s\n", texts[tag], hz_error_type_name(error), hz_error_message(error));
            hz_error_free(error);
        }
        hz_job_free(jobs[tag]);
    }

    // Memory goes there and comes back without a copy. A thread that waits for a result gets it, and the collector is not told.
    char word[] = "stressed";
    int once = 1;
    hz_memory memory = {word, strlen(word), true, release, &once};
    hz_job *job = submit(workers, 100, "reversed", &memory);
    while (!hz_job_claim(job, 50)) {
    }
    hz_answer answer;
    hz_buffer *buffer = NULL;
    CHECK(hz_job_answer(job, &answer, &error));
    CHECK(hz_job_buffer(job, 0, &buffer, &error));
    printf("%.*s: %.*s\n", (int)answer.len, answer.data, (int)hz_buffer_len(buffer), (char *)hz_buffer_data(buffer));
    hz_buffer_free(buffer);
    hz_job_free(job);
    printf("released: %d\n", atomic_load(&released));

    // It ends when what is queued has run.
    job = submit(workers, 101, "the last one", NULL);
    hz_workers_close(workers);
    printf("closed: status %d\n", (int)hz_workers_submit(workers, SIZE_MAX, 102, "", 0, NULL, 0, &(hz_job *){NULL}, NULL));
    // A call that ended before somebody looked for it is named too, though its result is claimed.
    size_t claimed = 0;
    for (uint64_t tag = 0; hz_workers_collect(workers, &tag, 1) > 0;) {
        claimed += tag == 101 && hz_job_claim(job, 0);
    }
    printf("ended: %zu claimed\n", claimed);
    CHECK(hz_job_answer(job, &answer, &error));
    printf("%.*s\n", (int)answer.len, answer.data);
    hz_job_free(job);
    hz_workers_free(workers);
    return 0;
}
