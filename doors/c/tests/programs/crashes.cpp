// Crashes of native code are errors of the calls, in C and C++, and the program goes on.

#include <hydrozoa.hpp>
#include <cstring>
#include <iostream>
#include <string>

namespace {

const char *SOURCE =
    "import ctypes\n"
    "def run(data):\n"
    "    if data == b'crash':\n"
    "        ctypes.string_at(0)\n"
    "    return data.upper()\n";

bool has(const char *text, const char *words) { return std::strstr(text, words) != nullptr; }

// A session on an interpreter that has not crashed.
void pools() {
    hydrozoa::Pool pool = hydrozoa::Builder().interpreters(1).contain_crashes(true).build();
    hydrozoa::Session session = pool.acquire();
    std::cout << "crashed: " << session.has_crashed() << '\n';
    try {
        session.run("import ctypes; ctypes.string_at(0)", "crash.py");
    } catch (const hydrozoa::CrashedError &error) {
        std::cout << "status " << error.status() << ": " << has(error.what(), "has crashed (hz_error_report has the report): SIGSEGV in ")
                  << has(error.report(), "string_at") << has(error.report(), "crash.py") << '\n';
    }
    std::cout << "crashed: " << session.has_crashed() << '\n';
    try {
        session.eval("1");
    } catch (const hydrozoa::CrashedError &) {
        std::cout << "all calls fail\n";
    }
    session = pool.acquire();
    // The pool replaces it within a moment.
    while (session.has_crashed()) {
        session = pool.acquire();
    }
    std::cout << "another one: " << session.eval("6 * 7").to_int(session) << '\n';
}

hz_job *submit(const hz_workers *workers, const char *text) {
    hz_job *job = nullptr;
    hydrozoa::check(hz_workers_submit, workers, SIZE_MAX, std::uint64_t{7}, text, std::strlen(text), nullptr, std::size_t{0}, &job);
    while (!hz_job_claim(job, 1000)) {
    }
    return job;
}

void start(hz_workers *workers, const hz_pool *pool) {
    std::size_t number = 0;
    hydrozoa::check(hz_workers_enlist, workers, false, &number);
    hydrozoa::check(hz_workers_start, workers, number, pool, std::size_t{0}, "worker");
    hz_workers_open(workers, number);
}

// A worker whose interpreter crashes ends, and another one takes its place.
void workers() {
    hydrozoa::Pool pool = hydrozoa::Builder().interpreters(1).contain_crashes(true).replace_crashed(false).build();
    hydrozoa::check(hz_pool_register_module, pool.get(), "crashing", SOURCE);
    hz_workers *workers = nullptr;
    hydrozoa::check(hz_workers_new, "crashing", "run", std::size_t{1}, &workers);
    start(workers, pool.get());
    hz_job *job = submit(workers, "crash");
    hz_error *error = nullptr;
    hz_answer answer = {};
    std::cout << "status " << hz_job_answer(job, &answer, &error) << ": " << has(hz_error_report(error), "string_at") << '\n';
    hz_error_free(error);
    hz_job_free(job);
    std::size_t lost = 99;
    std::cout << "lost: " << hz_workers_lost(workers, &lost) << ' ' << lost << ", and " << hz_workers_lost(workers, &lost) << '\n';
    start(workers, pool.get());
    job = submit(workers, "again");
    hydrozoa::check(hz_job_answer, job, &answer);
    std::cout << std::string(answer.data, answer.len) << '\n';
    hz_job_free(job);
    hz_workers_free(workers);
}

}  // namespace

int main() {
    pools();
    workers();
    return 0;
}
