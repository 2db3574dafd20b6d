// The pool in C++17: threads with a session each, keywords, values, memory of a vector, exceptions.

#include <atomic>
#include <hydrozoa.hpp>
#include <iostream>
#include <thread>
#include <vector>

namespace {

const char *const SOURCE = R"(
def primes(first, last, *, step=1):
    return sum(all(n % d for d in range(2, int(n ** 0.5) + 1)) for n in range(max(first, 2), last, step))

def fail(reason):
    raise ValueError(reason)
)";

void run() {
    hydrozoa::Pool pool = hydrozoa::Builder().interpreters(2).build();
    pool.register_module("work", SOURCE);

    std::atomic<std::int64_t> total{0};
    std::vector<std::thread> threads;
    for (int part = 0; part < 4; part++) {
        threads.emplace_back([&, part] {
            hydrozoa::Session session = pool.acquire();
            hydrozoa::Object work = session.import("work");
            int first = part * 250;
            total += work.call_method(session, "primes", {first, first + 250}, {{"step", 1}}).to_int(session);
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    std::cout << total << " primes below 1000\n";

    hydrozoa::Session session = pool.acquire();
    hydrozoa::Object view = session.lend(std::vector<std::int32_t>{1, 2, 3});
    hydrozoa::Object numbers = view.call_method(session, "cast", {"i"});
    std::cout << session.import("builtins").call_method(session, "list", {numbers}).repr(session) << '\n';

    hydrozoa::Plain plain = session.eval("('text', b'bytes', 1.5, True, None, {'a': [1]})").to_plain(session);
    std::cout << plain.value().len << " values, " << session.object(plain.value()).repr(session) << '\n';

    try {
        session.import("work").call_method(session, "fail", {std::string("no reason")});
    } catch (const hydrozoa::Error &error) {
        std::string traceback = error.traceback();
        std::cout << error.what() << "; in fail: " << (traceback.find("in fail") != std::string::npos) << '\n';
        std::cout << session.exception(error).getattr(session, "args").repr(session) << '\n';
    }
    std::cout << "library " << (hz_abi_version() == HZ_ABI_VERSION ? "fits" : "does not fit") << '\n';
}

}  // namespace

int main() {
    try {
        run();
    } catch (const hydrozoa::Error &error) {
        std::cerr << error.what() << '\n' << error.traceback();
        return 1;
    }
    return 0;
}
