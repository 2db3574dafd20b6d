// Hydrozoa for C++17: hydrozoa.h with handles that free themselves, and exceptions.
//
// The rules of hydrozoa.h hold. In addition: handles are moved and not copied; a handle that has been moved from may
// only be destroyed or assigned to; a function that fails throws hydrozoa::Error.

#ifndef HYDROZOA_HPP
#define HYDROZOA_HPP

#include "hydrozoa.h"
// Does nothing behind dlpack.h.
#include "hydrozoa_dlpack.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hydrozoa {

namespace detail {

template <auto Free>
struct Deleter {
    template <class T>
    void operator()(T *handle) const noexcept {
        Free(handle);
    }
};

template <class T, auto Free>
using Owned = std::unique_ptr<T, Deleter<Free>>;

}  // namespace detail

// What has failed. what() is the message; for an exception of Python "TYPE: MESSAGE".
class Error : public std::runtime_error {
public:
    // Takes the error.
    explicit Error(hz_error *error)
        : std::runtime_error(describe(error)), error_(error, hz_error_free) {}

    hz_status status() const noexcept { return hz_error_status(error_.get()); }
    // The type of the exception with its module unless it is built in, else "".
    const char *type_name() const noexcept { return hz_error_type_name(error_.get()); }
    const char *message() const noexcept { return hz_error_message(error_.get()); }
    // As Python prints it, or "".
    const char *traceback() const noexcept { return hz_error_traceback(error_.get()); }
    const hz_error *get() const noexcept { return error_.get(); }

private:
    static std::string describe(const hz_error *error) {
        std::string text = hz_error_type_name(error);
        return text.empty() ? hz_error_message(error) : text + ": " + hz_error_message(error);
    }

    // Exceptions are copied.
    std::shared_ptr<hz_error> error_;
};

// Calls a function of hydrozoa.h with a place for its error, and throws that.
template <class Call>
void check(Call &&call) {
    hz_error *error = nullptr;
    if (call(&error) != HZ_OK) {
        throw Error(error);
    }
}

namespace detail {

// The same for a function that makes a handle.
template <class Handle, class Call>
Handle made(Call &&call) {
    typename Handle::pointer handle = nullptr;
    check([&](hz_error **error) { return call(&handle, error); });
    return Handle(handle);
}

inline std::uint64_t milliseconds(std::chrono::milliseconds time) {
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

// Text that the library has made.
inline std::string taken(hz_bytes *bytes) {
    Owned<hz_bytes, hz_bytes_free> owned(bytes);
    return std::string(hz_bytes_data(bytes), hz_bytes_len(bytes));
}

}  // namespace detail

class Object;
class Session;

// An argument of a call. It refers to memory of its maker's, which must live until the call returns.
class Argument {
public:
    Argument(std::nullptr_t) : value_(hz_none()) {}
    Argument(bool truth) : value_(hz_bool(truth)) {}
    template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
    Argument(T integer) : value_(hz_int(static_cast<std::int64_t>(integer))) {
        static_assert(std::is_signed_v<T> || sizeof(T) < sizeof(std::int64_t), "it may not fit into int64_t");
    }
    Argument(double real) : value_(hz_float(real)) {}
    Argument(const char *text) : value_(hz_str(text)) {}
    Argument(std::string_view text) : value_(hz_text(text.data(), text.size())) {}
    Argument(const std::string &text) : Argument(std::string_view(text)) {}
    Argument(const Object &object);
    Argument(const hz_value &value) : value_(value) {}

    const hz_value &value() const noexcept { return value_; }

private:
    hz_value value_;
};

// bytes, where text would be str.
inline Argument bytes(const void *data, std::size_t len) { return hz_bytes_value(data, len); }

// An argument with its name.
struct Keyword {
    Keyword(const char *name, Argument argument) : keyword(hz_named(name, argument.value())) {}
    hz_keyword keyword;
};

using Arguments = std::initializer_list<Argument>;
using Keywords = std::initializer_list<Keyword>;

static_assert(sizeof(Argument) == sizeof(hz_value), "a list of arguments is an array of values");
static_assert(sizeof(Keyword) == sizeof(hz_keyword), "a list of keywords is an array of them");

namespace detail {

inline const hz_value *values(const Arguments &arguments) {
    return arguments.size() == 0 ? nullptr : &arguments.begin()->value();
}

inline const hz_keyword *keywords(const Keywords &keywords) {
    return keywords.size() == 0 ? nullptr : &keywords.begin()->keyword;
}

}  // namespace detail

// A copy of a value, which belongs to no interpreter.
class Plain {
public:
    using pointer = hz_plain *;
    explicit Plain(hz_plain *plain) : plain_(plain) {}

    // What the value refers to lives as long as this.
    const hz_value &value() const noexcept { return *hz_plain_value(plain_.get()); }

private:
    detail::Owned<hz_plain, hz_plain_free> plain_;
};

// Memory that a Python object exports.
class Buffer {
public:
    using pointer = hz_buffer *;
    explicit Buffer(hz_buffer *buffer) : buffer_(buffer) {}

    void *data() const noexcept { return hz_buffer_data(buffer_.get()); }
    std::size_t size() const noexcept { return hz_buffer_len(buffer_.get()); }
    hz_buffer_info info() const {
        hz_buffer_info info = {};
        check([&](hz_error **error) { return hz_buffer_describe(buffer_.get(), &info, error); });
        return info;
    }
    const hz_buffer *get() const noexcept { return buffer_.get(); }

private:
    detail::Owned<hz_buffer, hz_buffer_free> buffer_;
};

namespace detail {

struct DlpackDeleter {
    void operator()(DLManagedTensor *tensor) const noexcept {
        if (tensor->deleter != nullptr) {
            tensor->deleter(tensor);
        }
    }
};

}  // namespace detail

// A tensor of DLPack that calls its deleter. release() gives it to another owner.
using DlpackTensor = std::unique_ptr<DLManagedTensor, detail::DlpackDeleter>;

// A reference to a Python object.
class Object {
public:
    using pointer = hz_object *;
    explicit Object(hz_object *object) : object_(object) {}

    inline Object call(const Session &session, Arguments arguments = {}, Keywords keywords = {}) const;
    inline Object call_method(const Session &session, const char *method, Arguments arguments = {},
                              Keywords keywords = {}) const;
    inline Object getattr(const Session &session, const char *name) const;
    inline void setattr(const Session &session, const char *name, const Argument &value) const;
    inline Object get_item(const Session &session, const Argument &key) const;
    inline void set_item(const Session &session, const Argument &key, const Argument &value) const;
    inline std::size_t len(const Session &session) const;
    inline bool truth(const Session &session) const;
    inline std::int64_t to_int(const Session &session) const;
    inline double to_float(const Session &session) const;
    // The text of a str.
    inline std::string to_text(const Session &session) const;
    // The bytes of a bytes or a bytearray.
    inline std::string to_bytes(const Session &session) const;
    inline std::string str(const Session &session) const;
    inline std::string repr(const Session &session) const;
    inline Plain to_plain(const Session &session) const;
    inline Buffer to_buffer(const Session &session, bool writable = false) const;
    inline DlpackTensor to_dlpack(const Session &session) const;

    // One more reference to the same object.
    Object clone() const { return Object(hz_object_clone(object_.get())); }
    const hz_object *get() const noexcept { return object_.get(); }

private:
    template <class Value, class Function>
    Value ask(const Session &session, Function function) const;
    template <class Function>
    std::string content(const Session &session, Function function) const;

    detail::Owned<hz_object, hz_object_free> object_;
};

inline Argument::Argument(const Object &object) : value_(hz_reference(object.get())) {}

// Interrupts the calls of one session, from any thread.
class InterruptHandle {
public:
    using pointer = hz_interrupt_handle *;
    explicit InterruptHandle(hz_interrupt_handle *handle) : handle_(handle) {}

    // Whether a call was interrupted.
    bool interrupt() const noexcept { return hz_interrupt_handle_interrupt(handle_.get()); }

private:
    detail::Owned<hz_interrupt_handle, hz_interrupt_handle_free> handle_;
};

class Movable;

// A lease on one interpreter, for the thread that has acquired it.
class Session {
public:
    using pointer = hz_session *;
    explicit Session(hz_session *session) : session_(session) {}

    Object import(const char *name) const {
        return detail::made<Object>([&](hz_object **module, hz_error **error) {
            return hz_session_import(session_.get(), name, module, error);
        });
    }

    Object run(const char *code, const char *file_name) const {
        return detail::made<Object>([&](hz_object **module, hz_error **error) {
            return hz_session_run(session_.get(), code, file_name, module, error);
        });
    }

    Object eval(const char *expression) const {
        return detail::made<Object>([&](hz_object **value, hz_error **error) {
            return hz_session_eval(session_.get(), expression, value, error);
        });
    }

    Object object(const Argument &value) const {
        return detail::made<Object>([&](hz_object **object, hz_error **error) {
            return hz_session_object(session_.get(), &value.value(), object, error);
        });
    }

    // The exception object of an error, or an Object with a get() of nullptr.
    Object exception(const Error &failed) const {
        return detail::made<Object>([&](hz_object **exception, hz_error **error) {
            return hz_error_exception(failed.get(), session_.get(), exception, error);
        });
    }

    // A memoryview over the bytes of a container such as std::vector, which is moved in and destroyed when Python no
    // longer uses it, by any thread.
    template <class Container>
    Object lend(Container container, bool read_only = true) const {
        using Element = std::remove_pointer_t<decltype(container.data())>;
        static_assert(std::is_trivially_copyable_v<Element>, "Python sees the bytes");
        auto owner = std::make_unique<Container>(std::move(container));
        void *data = const_cast<void *>(static_cast<const void *>(owner->data()));
        std::size_t len = owner->size() * sizeof(Element);
        hz_release release = [](void *context) { delete static_cast<Container *>(context); };
        void *context = owner.release();
        return detail::made<Object>([&](hz_object **view, hz_error **error) {
            return hz_session_lend(session_.get(), data, len, read_only, release, context, view, error);
        });
    }

    // A memoryview of memory that an object exports, of this interpreter or another one.
    Object object_from_buffer(const Buffer &buffer) const {
        return detail::made<Object>([&](hz_object **view, hz_error **error) {
            return hz_session_object_from_buffer(session_.get(), buffer.get(), view, error);
        });
    }

    Object object_from_dlpack(DlpackTensor tensor) const {
        DLManagedTensor *taken = tensor.release();
        return detail::made<Object>([&](hz_object **object, hz_error **error) {
            return hz_session_object_from_dlpack(session_.get(), taken, object, error);
        });
    }

    inline Movable create_movable(const Object &object) const;

    // The most time that each later call may take. 0 is no limit.
    void set_time_limit(std::chrono::milliseconds limit) const {
        check([&](hz_error **error) {
            return hz_session_set_time_limit(session_.get(), detail::milliseconds(limit), error);
        });
    }

    InterruptHandle interrupt_handle() const {
        return detail::made<InterruptHandle>([&](hz_interrupt_handle **handle, hz_error **error) {
            return hz_session_interrupt_handle(session_.get(), handle, error);
        });
    }

    // The position of its interpreter in its pool, from 0.
    std::size_t interpreter() const noexcept { return hz_session_interpreter(session_.get()); }
    const hz_session *get() const noexcept { return session_.get(); }

private:
    detail::Owned<hz_session, hz_session_free> session_;
};

inline Object Object::call(const Session &session, Arguments arguments, Keywords keywords) const {
    return detail::made<Object>([&](hz_object **result, hz_error **error) {
        return hz_object_call(get(), session.get(), detail::values(arguments), arguments.size(),
                              detail::keywords(keywords), keywords.size(), result, error);
    });
}

inline Object Object::call_method(const Session &session, const char *method, Arguments arguments,
                                  Keywords keywords) const {
    return detail::made<Object>([&](hz_object **result, hz_error **error) {
        return hz_object_call_method(get(), session.get(), method, detail::values(arguments), arguments.size(),
                                     detail::keywords(keywords), keywords.size(), result, error);
    });
}

inline Object Object::getattr(const Session &session, const char *name) const {
    return detail::made<Object>([&](hz_object **value, hz_error **error) {
        return hz_object_getattr(get(), session.get(), name, value, error);
    });
}

inline void Object::setattr(const Session &session, const char *name, const Argument &value) const {
    check([&](hz_error **error) {
        return hz_object_setattr(get(), session.get(), name, &value.value(), error);
    });
}

inline Object Object::get_item(const Session &session, const Argument &key) const {
    return detail::made<Object>([&](hz_object **value, hz_error **error) {
        return hz_object_get_item(get(), session.get(), &key.value(), value, error);
    });
}

inline void Object::set_item(const Session &session, const Argument &key, const Argument &value) const {
    check([&](hz_error **error) {
        return hz_object_set_item(get(), session.get(), &key.value(), &value.value(), error);
    });
}

template <class Value, class Function>
Value Object::ask(const Session &session, Function function) const {
    Value value{};
    check([&](hz_error **error) { return function(get(), session.get(), &value, error); });
    return value;
}

inline std::size_t Object::len(const Session &session) const { return ask<std::size_t>(session, hz_object_len); }
inline bool Object::truth(const Session &session) const { return ask<bool>(session, hz_object_truth); }
inline std::int64_t Object::to_int(const Session &session) const { return ask<std::int64_t>(session, hz_object_to_int); }
inline double Object::to_float(const Session &session) const { return ask<double>(session, hz_object_to_float); }

template <class Function>
std::string Object::content(const Session &session, Function function) const {
    hz_bytes *bytes = nullptr;
    check([&](hz_error **error) { return function(get(), session.get(), &bytes, error); });
    return detail::taken(bytes);
}

inline std::string Object::to_text(const Session &session) const { return content(session, hz_object_to_text); }
inline std::string Object::to_bytes(const Session &session) const { return content(session, hz_object_to_bytes); }
inline std::string Object::str(const Session &session) const { return content(session, hz_object_str); }
inline std::string Object::repr(const Session &session) const { return content(session, hz_object_repr); }

inline Plain Object::to_plain(const Session &session) const {
    return detail::made<Plain>([&](hz_plain **plain, hz_error **error) {
        return hz_object_to_plain(get(), session.get(), plain, error);
    });
}

inline Buffer Object::to_buffer(const Session &session, bool writable) const {
    return detail::made<Buffer>([&](hz_buffer **buffer, hz_error **error) {
        return hz_object_to_buffer(get(), session.get(), writable, buffer, error);
    });
}

inline DlpackTensor Object::to_dlpack(const Session &session) const {
    DLManagedTensor *tensor = nullptr;
    check([&](hz_error **error) { return hz_object_to_dlpack(get(), session.get(), &tensor, error); });
    return DlpackTensor(tensor);
}

// An object that every interpreter of a pool can use.
class Movable {
public:
    using pointer = hz_movable *;
    explicit Movable(hz_movable *movable) : movable_(movable) {}

    // Calls it on the least loaded interpreter.
    Plain call(Arguments arguments = {}, Keywords keywords = {}) const {
        return detail::made<Plain>([&](hz_plain **result, hz_error **error) {
            return hz_movable_call(movable_.get(), detail::values(arguments), arguments.size(),
                                   detail::keywords(keywords), keywords.size(), result, error);
        });
    }

    // A session on the least loaded interpreter.
    Session acquire() const {
        return detail::made<Session>([&](hz_session **session, hz_error **error) {
            return hz_movable_acquire(movable_.get(), session, error);
        });
    }

    // The copy of the session's interpreter.
    Object to_object(const Session &session) const {
        return detail::made<Object>([&](hz_object **object, hz_error **error) {
            return hz_movable_to_object(movable_.get(), session.get(), object, error);
        });
    }

    void unload(const Session &session) const {
        check(
            [&](hz_error **error) { return hz_movable_unload(movable_.get(), session.get(), error); });
    }

private:
    detail::Owned<hz_movable, hz_movable_free> movable_;
};

inline Movable Session::create_movable(const Object &object) const {
    return detail::made<Movable>([&](hz_movable **movable, hz_error **error) {
        return hz_session_create_movable(session_.get(), object.get(), movable, error);
    });
}

// A model's code and weights in one file.
class Package {
public:
    using pointer = hz_package *;
    explicit Package(hz_package *package) : package_(package) {}

    Movable load_pickle(const char *name, const char *resource) const {
        return detail::made<Movable>([&](hz_movable **movable, hz_error **error) {
            return hz_package_load_pickle(package_.get(), name, resource, movable, error);
        });
    }

    std::string load_text(const char *name, const char *resource) const {
        hz_bytes *content = nullptr;
        check([&](hz_error **error) {
            return hz_package_load_text(package_.get(), name, resource, &content, error);
        });
        return detail::taken(content);
    }

    std::string load_binary(const char *name, const char *resource) const {
        hz_bytes *content = nullptr;
        check([&](hz_error **error) {
            return hz_package_load_binary(package_.get(), name, resource, &content, error);
        });
        return detail::taken(content);
    }

    Object import(const Session &session, const char *name) const {
        return detail::made<Object>([&](hz_object **module, hz_error **error) {
            return hz_package_import(package_.get(), session.get(), name, module, error);
        });
    }

private:
    detail::Owned<hz_package, hz_package_free> package_;
};

// A pool of interpreters.
class Pool {
public:
    using pointer = hz_pool *;
    explicit Pool(hz_pool *pool) : pool_(pool) {}

    Session acquire() const {
        return detail::made<Session>([&](hz_session **session, hz_error **error) {
            return hz_pool_acquire(pool_.get(), session, error);
        });
    }

    Session acquire_timeout(std::chrono::milliseconds limit) const {
        return detail::made<Session>([&](hz_session **session, hz_error **error) {
            return hz_pool_acquire_timeout(pool_.get(), detail::milliseconds(limit), session, error);
        });
    }

    Session acquire_on(std::size_t index) const {
        return detail::made<Session>([&](hz_session **session, hz_error **error) {
            return hz_pool_acquire_on(pool_.get(), index, session, error);
        });
    }

    std::size_t size() const noexcept { return hz_pool_size(pool_.get()); }
    // 12 for Python 3.12.
    std::uint32_t python_minor() const noexcept { return hz_pool_python_minor(pool_.get()); }

    void replace(std::size_t index) const {
        check([&](hz_error **error) { return hz_pool_replace(pool_.get(), index, error); });
    }

    // The bytes of the interpreters that are still anonymous.
    std::uint64_t settle() const {
        std::uint64_t left = 0;
        check([&](hz_error **error) { return hz_pool_settle(pool_.get(), &left, error); });
        return left;
    }

    void resize(std::size_t count) const {
        check([&](hz_error **error) { return hz_pool_resize(pool_.get(), count, error); });
    }

    void register_module(const char *name, const char *source) const {
        check(
            [&](hz_error **error) { return hz_pool_register_module(pool_.get(), name, source, error); });
    }

    Package load_package(const char *file) const {
        return detail::made<Package>([&](hz_package **package, hz_error **error) {
            return hz_pool_load_package(pool_.get(), file, package, error);
        });
    }

    const hz_pool *get() const noexcept { return pool_.get(); }

    // Gives the pool up, and waits at most for so long until its interpreters have ended.
    void close(std::chrono::milliseconds within) {
        hz_pool *taken = pool_.release();
        check(
            [&](hz_error **error) { return hz_pool_close(taken, detail::milliseconds(within), error); });
    }

private:
    detail::Owned<hz_pool, hz_pool_free> pool_;
};

// The settings of a pool. Those that have no function here are set by hydrozoa.h, with get() and check().
class Builder {
public:
    Builder() : builder_(hz_builder_new()) {}

    Builder &interpreters(std::size_t count) { return set(hz_builder_interpreters, count); }
    Builder &max_sessions(std::size_t count) { return set(hz_builder_max_sessions, count); }
    Builder &python(const char *python) { return set(hz_builder_python, python); }
    Builder &venv(const char *directory) { return set(hz_builder_venv, directory); }
    Builder &path(const char *directory) { return set(hz_builder_path, directory); }
    Builder &memory_limit(std::size_t bytes) { return set(hz_builder_memory_limit, bytes); }
    Builder &settle_in(const char *directory) { return set(hz_builder_settle_in, directory); }
    Builder &replace_stuck(bool replace) { return set(hz_builder_replace_stuck, replace); }

    Pool build() const {
        return detail::made<Pool>([&](hz_pool **pool, hz_error **error) {
            return hz_builder_build(builder_.get(), pool, error);
        });
    }

    hz_builder *get() const noexcept { return builder_.get(); }

private:
    template <class Function, class Value>
    Builder &set(Function function, Value value) {
        check([&](hz_error **error) { return function(builder_.get(), value, error); });
        return *this;
    }

    detail::Owned<hz_builder, hz_builder_free> builder_;
};

namespace detail {

// The bytes of a container such as std::vector, which is destroyed when nobody uses them any more, by any thread.
template <class Container>
hz_memory kept(Container container, bool read_only) {
    using Element = std::remove_pointer_t<decltype(container.data())>;
    static_assert(std::is_trivially_copyable_v<Element>, "others see the bytes");
    auto owner = std::make_unique<Container>(std::move(container));
    hz_memory memory = {};
    memory.data = const_cast<void *>(static_cast<const void *>(owner->data()));
    memory.len = owner->size() * sizeof(Element);
    memory.read_only = read_only;
    memory.release = [](void *context) { delete static_cast<Container *>(context); };
    memory.context = owner.release();
    return memory;
}

}  // namespace detail

// A message of a queue, or none.
class Message {
public:
    using pointer = hz_message *;
    explicit Message(hz_message *message) : message_(message) {}

    explicit operator bool() const noexcept { return message_ != nullptr; }
    std::string_view data() const noexcept {
        return std::string_view(hz_message_data(message_.get()), hz_message_len(message_.get()));
    }
    std::size_t memory_count() const noexcept { return hz_message_memory_count(message_.get()); }
    // A piece of its memory, whose `release` the caller calls once.
    hz_memory memory(std::size_t index) const {
        hz_memory memory = {};
        check([&](hz_error **error) { return hz_message_memory(message_.get(), index, &memory, error); });
        return memory;
    }

private:
    detail::Owned<hz_message, hz_message_free> message_;
};

// A queue of messages between the program and all interpreters of all pools.
class Queue {
public:
    // 0 is any number of messages.
    explicit Queue(std::size_t max_len = 0) : queue_(hz_queue_new(max_len)) {}

    // Whether there was room.
    bool put(std::string_view data, std::chrono::milliseconds within = {}) const {
        return put_all(data, nullptr, 0, within);
    }
    // The same with the bytes of a container beside.
    template <class Container, class = decltype(std::declval<Container>().data())>
    bool put(std::string_view data, Container container, std::chrono::milliseconds within = {}) const {
        hz_memory memory = detail::kept(std::move(container), true);
        bool is_put = false;
        try {
            is_put = put_all(data, &memory, 1, within);
        } catch (...) {
            memory.release(memory.context);
            throw;
        }
        if (!is_put) {
            memory.release(memory.context);
        }
        return is_put;
    }
    Message get(std::chrono::milliseconds within = {}) const {
        return detail::made<Message>([&](hz_message **message, hz_error **error) {
            return hz_queue_get(queue_.get(), detail::milliseconds(within), message, error);
        });
    }

    std::uint64_t id() const noexcept { return hz_queue_id(queue_.get()); }
    std::size_t size() const noexcept { return hz_queue_len(queue_.get()); }

private:
    bool put_all(std::string_view data, const hz_memory *memory, std::size_t count, std::chrono::milliseconds within) const {
        bool is_put = false;
        check([&](hz_error **error) {
            return hz_queue_put(queue_.get(), data.data(), data.size(), memory, count, detail::milliseconds(within),
                                &is_put, error);
        });
        return is_put;
    }

    detail::Owned<hz_queue, hz_queue_free> queue_;
};

// A call that workers run.
class Job {
public:
    using pointer = hz_job *;
    explicit Job(hz_job *job) : job_(job) {}

    hz_stage stage() const noexcept { return hz_job_stage(job_.get()); }
    // Whether it never runs.
    bool cancel() const noexcept { return hz_job_cancel(job_.get()); }
    // Looks for the result for so long, without sleep. Whether it is there, and the caller's.
    bool claim(std::chrono::microseconds most) const noexcept {
        return hz_job_claim(job_.get(), most.count() < 0 ? 0 : static_cast<std::uint64_t>(most.count()));
    }
    // The bytes that it has returned. They live as long as this.
    std::string_view answer() const {
        hz_answer answer = {};
        check([&](hz_error **error) { return hz_job_answer(job_.get(), &answer, error); });
        return std::string_view(answer.data, answer.len);
    }
    // The memory of an object that it has returned beside, from 0. Each is there once.
    Buffer buffer(std::size_t index) const {
        return detail::made<Buffer>([&](hz_buffer **buffer, hz_error **error) {
            return hz_job_buffer(job_.get(), index, buffer, error);
        });
    }

private:
    detail::Owned<hz_job, hz_job_free> job_;
};

// Threads of the library that run calls of one function.
class Workers {
public:
    using pointer = hz_workers *;
    explicit Workers(hz_workers *workers) : workers_(workers) {}
    Workers(const char *module, const char *function)
        : Workers(detail::made<Workers>([&](hz_workers **workers, hz_error **error) {
              return hz_workers_new(module, function, workers, error);
          })) {}

    // A worker on the interpreter at `index`, which takes calls at once.
    void add(const Pool &pool, std::size_t index, const char *name = "hydrozoa") const {
        std::size_t number = 0;
        check([&](hz_error **error) { return hz_workers_enlist(workers_.get(), &number, error); });
        check([&](hz_error **error) {
            return hz_workers_start(workers_.get(), number, pool.get(), index, name, error);
        });
        hz_workers_open(workers_.get(), number);
    }
    Job submit(std::string_view data, std::uint64_t tag = 0) const { return submit_all(data, tag, nullptr, 0); }
    // The same with the bytes of a container, of which Python gets a memoryview.
    template <class Container, class = decltype(std::declval<Container>().data())>
    Job submit(std::string_view data, Container container, bool read_only = true, std::uint64_t tag = 0) const {
        hz_memory memory = detail::kept(std::move(container), read_only);
        return submit_all(data, tag, &memory, 1);
    }
    // Waits for calls whose results nobody looks for. How many tags were written; 0 when all has ended.
    std::size_t collect(std::uint64_t *tags, std::size_t capacity) const noexcept {
        return hz_workers_collect(workers_.get(), tags, capacity);
    }
    // No further calls.
    void close() const noexcept { hz_workers_close(workers_.get()); }
    hz_workers *get() const noexcept { return workers_.get(); }

private:
    Job submit_all(std::string_view data, std::uint64_t tag, const hz_memory *memory, std::size_t count) const {
        return detail::made<Job>([&](hz_job **job, hz_error **error) {
            return hz_workers_submit(workers_.get(), SIZE_MAX, tag, data.data(), data.size(), memory, count, job, error);
        });
    }

    detail::Owned<hz_workers, hz_workers_free> workers_;
};

}  // namespace hydrozoa

#endif  // HYDROZOA_HPP
