// What the examples do not use: settings of the builder, changes of the pool, the other operations on objects, queues and
// workers.

#include <hydrozoa.hpp>
#include <iostream>
#include <vector>

namespace {

using hydrozoa::check;

hydrozoa::Pool built(const char *directory) {
    hydrozoa::Builder builder;
    builder.interpreters(1).max_sessions(2).path("/nonexistent/first").memory_limit(std::size_t{1} << 30);
    builder.replace_stuck(true).settle_in(directory).dense(directory);
    hz_builder *raw = builder.get();
    const char *arguments[] = {"program", "--option"};
    const char *variables[] = {"HZ_NAME=a value=b", "PATH=/nonexistent"};
    check(hz_builder_arguments, raw, arguments, 2);
    check(hz_builder_environment, raw, variables, 2);
    check(hz_builder_optimize, raw, 1);
    check(hz_builder_hash_seed, raw, 7);
    check(hz_builder_unbuffered, raw, true);
    check(hz_builder_x_option, raw, "utf8");
    check(hz_builder_share, raw, "*/libnone.so");
    check([&](hz_error **error) { return hz_builder_replicate(raw, "*/libother.so", error); });
    return builder.build();
}

void settings(const hydrozoa::Session &session) {
    hydrozoa::Object sys = session.import("sys");
    std::cout << sys.getattr(session, "argv").repr(session) << '\n';
    std::cout << sys.getattr(session, "path").get_item(session, 0).repr(session) << '\n';
    std::cout << sys.getattr(session, "flags").getattr(session, "optimize").to_int(session) << '\n';
    std::cout << session.import("os").getattr(session, "environ").get_item(session, "HZ_NAME").to_text(session)
              << '\n';
}

void objects(const hydrozoa::Session &session) {
    hydrozoa::Object module = session.run("class Box: pass\nbox = Box()\n", "boxes.py");
    hydrozoa::Object box = module.getattr(session, "box");
    box.setattr(session, "items", hydrozoa::bytes("a\0b", 3));
    hydrozoa::Object again = box.clone();
    box = session.object(nullptr);
    hydrozoa::Object items = again.getattr(session, "items");
    std::cout << items.len(session) << ' ' << items.to_bytes(session).size() << ' ' << items.repr(session) << '\n';
    std::cout << items.truth(session) << box.truth(session) << ' ' << box.str(session) << '\n';
    hydrozoa::Buffer buffer = items.to_buffer(session);
    std::cout << buffer.info().read_only << ' ' << static_cast<const char *>(buffer.data())[2] << '\n';

    // Values in a dict, and out again.
    hydrozoa::Object table = session.eval("{}");
    table.set_item(session, "list", session.object(hz_list(nullptr, 0)));
    table.set_item(session, 2.5, std::string_view("text without end", 4));
    hydrozoa::Plain plain = table.to_plain(session);
    const hz_value &value = plain.value();
    std::cout << value.kind << ' ' << value.len << ' ' << value.data.items[2].data.real << ' '
              << value.data.items[3].data.text << '\n';
}

void movables(const hydrozoa::Pool &pool, const hydrozoa::Session &session) {
    hydrozoa::Object abs = session.import("operator").getattr(session, "abs");
    hydrozoa::Movable movable = session.create_movable(abs);
    std::cout << movable.call({-4}).value().data.integer << '\n';
    hydrozoa::Session on = movable.acquire();
    std::cout << movable.to_object(on).call(on, {-5}).to_int(on) << ' ' << (on.interpreter() < pool.size()) << '\n';
}

// Errors are copied, and may leave the function in which they were caught.
void refused(const hydrozoa::Session &session) {
    try {
        session.eval("1").to_dlpack(session);
    } catch (const hydrozoa::Error &error) {
        std::cout << error.status() << '\n';
    }
    hydrozoa::Error copied = [&] {
        try {
            session.eval("[][1]");
        } catch (const hydrozoa::Error &error) {
            return error;
        }
        throw std::logic_error("there was no error");
    }();
    std::cout << copied.type_name() << ": " << copied.message() << '\n';
}

// A message and a call, each with memory beside its bytes.
void messages_and_workers(const hydrozoa::Pool &pool) {
    hydrozoa::Queue queue(1);
    std::cout << queue.put("first", std::vector<char>{'a', 'b'}) << queue.put("second", std::vector<char>{'c'})
              << queue.put("third", std::chrono::seconds(0)) << ' ' << queue.size() << ' ' << (queue.id() > 0) << '\n';
    hydrozoa::Message message = queue.get();
    hz_memory memory = message.memory(0);
    std::cout << message.data() << ' ' << message.memory_count() << ' '
              << std::string_view(static_cast<char *>(memory.data), memory.len) << ' ' << !queue.get() << '\n';
    memory.release(memory.context);

    pool.register_module("turning",
                         "def turned(data, *views):\n"
                         "    if not data: raise ValueError('nothing')\n"
                         "    return (data[::-1], bytearray(reversed(views[0]))) if views else data[::-1]\n");
    hydrozoa::Workers workers("turning", "turned");
    workers.add(pool, 0);
    const std::chrono::microseconds moment(50);
    hydrozoa::Job plain = workers.submit("drawer"), beside = workers.submit("live", std::vector<char>{'a', 'b', 'c'});
    hydrozoa::Job refused = workers.submit("");
    for (const hydrozoa::Job *job : {&plain, &beside, &refused}) {
        while (job->stage() != HZ_STAGE_ENDED || !job->claim(moment)) {
        }
    }
    hydrozoa::Buffer buffer = beside.buffer(0);
    std::cout << plain.answer() << ' ' << beside.answer() << ' '
              << std::string_view(static_cast<char *>(buffer.data()), buffer.size()) << ' ' << plain.cancel() << '\n';
    try {
        refused.answer();
    } catch (const hydrozoa::Error &error) {
        std::cout << error.what() << '\n';
    }
    workers.close();
    // What ended before somebody looked for it is named once.
    std::uint64_t tags[8];
    while (workers.collect(tags, 8) > 0) {
    }
}

}  // namespace

int main(int, char **arguments) {
    hydrozoa::Pool pool = built(arguments[1]);
    {
        hydrozoa::Session session = pool.acquire();
        settings(session);
        objects(session);
        pool.resize(2);
        movables(pool, session);
        refused(session);
    }
    messages_and_workers(pool);
    pool.replace(0);
    std::cout << pool.size() << ' ' << (pool.python_minor() >= 10) << ' '
              << (std::string(hz_version()).find('.') != std::string::npos) << '\n';
    {
        hydrozoa::Session first = pool.acquire_on(0), second = pool.acquire_on(1);
        hydrozoa::Object hash = first.eval("hash('text')"), other = second.eval("hash('text')");
        std::cout << (hash.to_int(first) == other.to_int(second)) << '\n';
    }
    std::cout << (pool.settle() < (1 << 20)) << '\n';
    pool.close(std::chrono::seconds(60));
    std::cout << "closed\n";
    return 0;
}
