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

// A handle that frees itself.
template <class T, auto Free>
class Handle {
public:
    using pointer = T *;
    explicit Handle(T *handle) : handle_(handle) {}
    T *get() const noexcept { return handle_.get(); }

protected:
    std::unique_ptr<T, Deleter<Free>> handle_;
};

}  // namespace detail

// A failure. what() is the message; for an exception of Python "TYPE: MESSAGE".
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
    // Of a crash, or "".
    const char *report() const noexcept { return hz_error_report(error_.get()); }
    const hz_error *get() const noexcept { return error_.get(); }

private:
    static std::string describe(const hz_error *error) {
        std::string text = hz_error_type_name(error);
        return text.empty() ? hz_error_message(error) : text + ": " + hz_error_message(error);
    }

    // Exceptions are copied.
    std::shared_ptr<hz_error> error_;
};

// Code of the interpreter has crashed, and the crash was contained: HZ_ERROR_CRASHED.
class CrashedError : public Error {
public:
    using Error::Error;
};

// Calls `function(arguments..., &error)`, and throws its error.
template <class Function, class... Arguments>
void check(Function &&function, Arguments... arguments) {
    hz_error *error = nullptr;
    hz_status status = function(arguments..., &error);
    if (status == HZ_ERROR_CRASHED) {
        throw CrashedError(error);
    }
    if (status != HZ_OK) {
        throw Error(error);
    }
}

namespace detail {

// What a function writes before its error.
template <class Value, class Function, class... Arguments>
Value written(Function function, Arguments... arguments) {
    Value value = {};
    check(function, arguments..., &value);
    return value;
}

// The same for a handle.
template <class Made, class Function, class... Arguments>
Made made(Function function, Arguments... arguments) {
    return Made(written<typename Made::pointer>(function, arguments...));
}

inline std::uint64_t milliseconds(std::chrono::milliseconds time) {
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

// Text that the library has made.
inline std::string taken(hz_bytes *bytes) {
    std::unique_ptr<hz_bytes, Deleter<hz_bytes_free>> owned(bytes);
    return std::string(hz_bytes_data(bytes), hz_bytes_len(bytes));
}

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
class Plain : public detail::Handle<hz_plain, hz_plain_free> {
public:
    using Handle::Handle;

    // The value's data lives as long as this.
    const hz_value &value() const noexcept { return *hz_plain_value(get()); }
};

// Memory that a Python object exports.
class Buffer : public detail::Handle<hz_buffer, hz_buffer_free> {
public:
    using Handle::Handle;

    void *data() const noexcept { return hz_buffer_data(get()); }
    std::size_t size() const noexcept { return hz_buffer_len(get()); }
    hz_buffer_info info() const { return detail::written<hz_buffer_info>(hz_buffer_describe, get()); }
};

namespace detail {

struct DlpackDeleter {
    void operator()(DLManagedTensor *tensor) const noexcept {
        if (tensor->deleter != nullptr) {
            tensor->deleter(tensor);
        }
    }
};

inline const hz_session *handle(const Session &session);

}  // namespace detail

// A tensor of DLPack that calls its deleter. release() gives it to another owner.
using DlpackTensor = std::unique_ptr<DLManagedTensor, detail::DlpackDeleter>;

// A reference to a Python object.
class Object : public detail::Handle<hz_object, hz_object_free> {
public:
    using Handle::Handle;

    Object call(const Session &session, Arguments arguments = {}, Keywords keywords = {}) const {
        return detail::made<Object>(hz_object_call, get(), detail::handle(session), detail::values(arguments),
                                    arguments.size(), detail::keywords(keywords), keywords.size());
    }
    Object call_method(const Session &session, const char *method, Arguments arguments = {},
                       Keywords keywords = {}) const {
        return detail::made<Object>(hz_object_call_method, get(), detail::handle(session), method,
                                    detail::values(arguments), arguments.size(), detail::keywords(keywords),
                                    keywords.size());
    }
    Object getattr(const Session &session, const char *name) const {
        return detail::made<Object>(hz_object_getattr, get(), detail::handle(session), name);
    }
    void setattr(const Session &session, const char *name, const Argument &value) const {
        check(hz_object_setattr, get(), detail::handle(session), name, &value.value());
    }
    Object get_item(const Session &session, const Argument &key) const {
        return detail::made<Object>(hz_object_get_item, get(), detail::handle(session), &key.value());
    }
    void set_item(const Session &session, const Argument &key, const Argument &value) const {
        check(hz_object_set_item, get(), detail::handle(session), &key.value(), &value.value());
    }
    std::size_t len(const Session &session) const { return ask<std::size_t>(hz_object_len, session); }
    bool truth(const Session &session) const { return ask<bool>(hz_object_truth, session); }
    std::int64_t to_int(const Session &session) const { return ask<std::int64_t>(hz_object_to_int, session); }
    double to_float(const Session &session) const { return ask<double>(hz_object_to_float, session); }
    // The text of a str.
    std::string to_text(const Session &session) const { return content(hz_object_to_text, session); }
    // The bytes of a bytes or a bytearray.
    std::string to_bytes(const Session &session) const { return content(hz_object_to_bytes, session); }
    std::string str(const Session &session) const { return content(hz_object_str, session); }
    std::string repr(const Session &session) const { return content(hz_object_repr, session); }
    Plain to_plain(const Session &session) const { return Plain(ask<hz_plain *>(hz_object_to_plain, session)); }
    Buffer to_buffer(const Session &session, bool writable = false) const {
        return detail::made<Buffer>(hz_object_to_buffer, get(), detail::handle(session), writable);
    }
    DlpackTensor to_dlpack(const Session &session) const {
        return DlpackTensor(ask<DLManagedTensor *>(hz_object_to_dlpack, session));
    }

    // One more reference to the same object.
    Object clone() const { return Object(hz_object_clone(get())); }

private:
    template <class Value, class Function>
    Value ask(Function function, const Session &session) const {
        return detail::written<Value>(function, get(), detail::handle(session));
    }
    template <class Function>
    std::string content(Function function, const Session &session) const {
        return detail::taken(ask<hz_bytes *>(function, session));
    }
};

inline Argument::Argument(const Object &object) : value_(hz_reference(object.get())) {}

// Interrupts the calls of one session, from any thread.
class InterruptHandle : public detail::Handle<hz_interrupt_handle, hz_interrupt_handle_free> {
public:
    using Handle::Handle;

    // Whether a call was interrupted.
    bool interrupt() const noexcept { return hz_interrupt_handle_interrupt(get()); }
};

class Movable;

// A lease on one interpreter, for the thread that has acquired it.
class Session : public detail::Handle<hz_session, hz_session_free> {
public:
    using Handle::Handle;

    Object import(const char *name) const { return detail::made<Object>(hz_session_import, get(), name); }
    Object run(const char *code, const char *file_name) const {
        return detail::made<Object>(hz_session_run, get(), code, file_name);
    }
    Object eval(const char *expression) const { return detail::made<Object>(hz_session_eval, get(), expression); }
    // Whether code of its interpreter has crashed, and the crash was contained.
    bool has_crashed() const noexcept { return hz_session_has_crashed(get()); }
    Object object(const Argument &value) const {
        return detail::made<Object>(hz_session_object, get(), &value.value());
    }
    // The exception object of an error, or an Object with a get() of nullptr.
    Object exception(const Error &failed) const {
        return detail::made<Object>(hz_error_exception, failed.get(), get());
    }

    // A memoryview over the bytes of a container such as std::vector, which is moved in and destroyed when Python no
    // longer uses it, by any thread.
    template <class Container>
    Object lend(Container container, bool read_only = true) const {
        hz_memory memory = detail::kept(std::move(container), read_only);
        return detail::made<Object>(hz_session_lend, get(), memory.data, memory.len, memory.read_only, memory.release,
                                    memory.context);
    }
    // A memoryview of memory that an object exports, of this interpreter or another one.
    Object object_from_buffer(const Buffer &buffer) const {
        return detail::made<Object>(hz_session_object_from_buffer, get(), buffer.get());
    }
    Object object_from_dlpack(DlpackTensor tensor) const {
        return detail::made<Object>(hz_session_object_from_dlpack, get(), tensor.release());
    }
    inline Movable create_movable(const Object &object) const;

    // The most time that each later call may take. 0 means unlimited.
    void set_time_limit(std::chrono::milliseconds limit) const {
        check(hz_session_set_time_limit, get(), detail::milliseconds(limit));
    }
    InterruptHandle interrupt_handle() const {
        return detail::made<InterruptHandle>(hz_session_interrupt_handle, get());
    }
    // The position of its interpreter in its pool, from 0.
    std::size_t interpreter() const noexcept { return hz_session_interpreter(get()); }
};

inline const hz_session *detail::handle(const Session &session) { return session.get(); }

// An object that every interpreter of a pool can use.
class Movable : public detail::Handle<hz_movable, hz_movable_free> {
public:
    using Handle::Handle;

    // Calls it on the least loaded interpreter.
    Plain call(Arguments arguments = {}, Keywords keywords = {}) const {
        return detail::made<Plain>(hz_movable_call, get(), detail::values(arguments), arguments.size(),
                                   detail::keywords(keywords), keywords.size());
    }
    // A session on the least loaded interpreter.
    Session acquire() const { return detail::made<Session>(hz_movable_acquire, get()); }
    // The copy of the session's interpreter.
    Object to_object(const Session &session) const {
        return detail::made<Object>(hz_movable_to_object, get(), session.get());
    }
    void unload(const Session &session) const { check(hz_movable_unload, get(), session.get()); }
};

inline Movable Session::create_movable(const Object &object) const {
    return detail::made<Movable>(hz_session_create_movable, get(), object.get());
}

// A model's code and weights in one file.
class Package : public detail::Handle<hz_package, hz_package_free> {
public:
    using Handle::Handle;

    Movable load_pickle(const char *name, const char *resource) const {
        return detail::made<Movable>(hz_package_load_pickle, get(), name, resource);
    }
    std::string load_text(const char *name, const char *resource) const {
        return detail::taken(detail::written<hz_bytes *>(hz_package_load_text, get(), name, resource));
    }
    std::string load_binary(const char *name, const char *resource) const {
        return detail::taken(detail::written<hz_bytes *>(hz_package_load_binary, get(), name, resource));
    }
    Object import(const Session &session, const char *name) const {
        return detail::made<Object>(hz_package_import, get(), session.get(), name);
    }
};

// A pool of interpreters.
class Pool : public detail::Handle<hz_pool, hz_pool_free> {
public:
    using Handle::Handle;

    Session acquire() const { return detail::made<Session>(hz_pool_acquire, get()); }
    Session acquire_timeout(std::chrono::milliseconds limit) const {
        return detail::made<Session>(hz_pool_acquire_timeout, get(), detail::milliseconds(limit));
    }
    Session acquire_on(std::size_t index) const { return detail::made<Session>(hz_pool_acquire_on, get(), index); }

    std::size_t size() const noexcept { return hz_pool_size(get()); }
    // 12 for Python 3.12.
    std::uint32_t python_minor() const noexcept { return hz_pool_python_minor(get()); }

    void replace(std::size_t index) const { check(hz_pool_replace, get(), index); }
    // The bytes of the interpreters that are still anonymous.
    std::uint64_t settle() const { return detail::written<std::uint64_t>(hz_pool_settle, get()); }
    void resize(std::size_t count) const { check(hz_pool_resize, get(), count); }
    void register_module(const char *name, const char *source) const {
        check(hz_pool_register_module, get(), name, source);
    }
    Package load_package(const char *file) const { return detail::made<Package>(hz_pool_load_package, get(), file); }

    // Gives the pool up, and waits at most for so long until its interpreters have ended.
    void close(std::chrono::milliseconds within) {
        check(hz_pool_close, handle_.release(), detail::milliseconds(within));
    }
};

// The settings of a pool. Those that have no function here are set by hydrozoa.h, with get() and check().
class Builder : public detail::Handle<hz_builder, hz_builder_free> {
public:
    Builder() : Handle(hz_builder_new()) {}

    Builder &interpreters(std::size_t count) { return set(hz_builder_interpreters, count); }
    Builder &max_sessions(std::size_t count) { return set(hz_builder_max_sessions, count); }
    Builder &python(const char *python) { return set(hz_builder_python, python); }
    Builder &venv(const char *directory) { return set(hz_builder_venv, directory); }
    Builder &path(const char *directory) { return set(hz_builder_path, directory); }
    Builder &memory_limit(std::size_t bytes) { return set(hz_builder_memory_limit, bytes); }
    Builder &settle_in(const char *directory) { return set(hz_builder_settle_in, directory); }
    Builder &dense(const char *directory) { return set(hz_builder_dense, directory); }
    Builder &replace_stuck(bool replace) { return set(hz_builder_replace_stuck, replace); }
    Builder &contain_crashes(bool contain) { return set(hz_builder_contain_crashes, contain); }
    Builder &replace_crashed(bool replace) { return set(hz_builder_replace_crashed, replace); }

    Pool build() const { return detail::made<Pool>(hz_builder_build, get()); }

private:
    template <class Function, class Value>
    Builder &set(Function function, Value value) {
        check(function, get(), value);
        return *this;
    }
};

// A message of a queue, or none.
class Message : public detail::Handle<hz_message, hz_message_free> {
public:
    using Handle::Handle;

    explicit operator bool() const noexcept { return get() != nullptr; }
    std::string_view data() const noexcept { return std::string_view(hz_message_data(get()), hz_message_len(get())); }
    std::size_t memory_count() const noexcept { return hz_message_memory_count(get()); }
    // A piece of its memory, whose `release` the caller calls once.
    hz_memory memory(std::size_t index) const { return detail::written<hz_memory>(hz_message_memory, get(), index); }
};

// A queue of messages between the program and all interpreters of all pools.
class Queue : public detail::Handle<hz_queue, hz_queue_free> {
public:
    // 0 is any number of messages.
    explicit Queue(std::size_t max_len = 0) : Handle(hz_queue_new(max_len)) {}

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
        return detail::made<Message>(hz_queue_get, handle_.get(), detail::milliseconds(within));
    }

    std::uint64_t id() const noexcept { return hz_queue_id(handle_.get()); }
    std::size_t size() const noexcept { return hz_queue_len(handle_.get()); }

private:
    bool put_all(std::string_view data, const hz_memory *memory, std::size_t count, std::chrono::milliseconds within) const {
        return detail::written<bool>(hz_queue_put, handle_.get(), data.data(), data.size(), memory, count,
                                     detail::milliseconds(within));
    }
};

// A call that workers run.
class Job : public detail::Handle<hz_job, hz_job_free> {
public:
    using Handle::Handle;

    hz_stage stage() const noexcept { return hz_job_stage(get()); }
    // Whether it never runs.
    bool cancel() const noexcept { return hz_job_cancel(get()); }
    // Looks for the result for so long, without sleep. Whether it is there, and the caller's.
    bool claim(std::chrono::microseconds most) const noexcept {
        return hz_job_claim(get(), most.count() < 0 ? 0 : static_cast<std::uint64_t>(most.count()));
    }
    // The bytes that it has returned. They live as long as this.
    std::string_view answer() const {
        hz_answer answer = detail::written<hz_answer>(hz_job_answer, get());
        return std::string_view(answer.data, answer.len);
    }
    // The memory of an object that it has returned beside, from 0. Each is there once.
    Buffer buffer(std::size_t index) const { return detail::made<Buffer>(hz_job_buffer, get(), index); }
};

// Threads of the library that run calls of one function.
class Workers : public detail::Handle<hz_workers, hz_workers_free> {
public:
    using Handle::Handle;
    Workers(const char *module, const char *function)
        : Handle(detail::written<hz_workers *>(hz_workers_new, module, function, 0)) {}

    // A worker on the interpreter at `index`, which takes calls at once.
    void add(const Pool &pool, std::size_t index, const char *name = "hydrozoa") const {
        std::size_t number = detail::written<std::size_t>(hz_workers_enlist, get(), false);
        check(hz_workers_start, get(), number, pool.get(), index, name);
        hz_workers_open(get(), number);
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
        return hz_workers_collect(get(), tags, capacity);
    }
    // No further calls.
    void close() const noexcept { hz_workers_close(get()); }

private:
    Job submit_all(std::string_view data, std::uint64_t tag, const hz_memory *memory, std::size_t count) const {
        return detail::made<Job>(hz_workers_submit, get(), SIZE_MAX, tag, data.data(), data.size(), memory, count);
    }
};

}  // namespace hydrozoa

#endif  // HYDROZOA_HPP
