// Hydrozoa: many complete, unmodified CPython interpreters in one process.
//
// This file is made from doors/c/src by `cargo xtask header --write`. docs/c.md is the manual, and hydrozoa.hpp the same
// for C++17.
//
// Rules, which hold for every function:
//
// Status. A function that can fail returns an hz_status and takes `hz_error **error` as its last argument. On failure
// it writes an error there, which the caller frees by hz_error_free; on success it writes NULL. `error` may be NULL.
//
// Ownership. A function whose description says that the caller owns a result writes a handle, or NULL on failure. The
// caller frees it once, by the function whose name ends in `_free`, which accepts NULL. No function takes a handle that
// it is given, unless its description says so. Pointers to `const` are borrowed: arguments during the call, results as
// long as stated.
//
// Arguments. NULL is HZ_ERROR_INVALID_ARGUMENT, unless the description allows it. Other pointers must be valid. Text is
// UTF-8 and ends with NUL, or has a length beside it; then it may contain zeros. Paths are any bytes and end with NUL.
// Sizes are in bytes, counts in elements, times in milliseconds.
//
// Threads. A session belongs to the thread that has acquired it: another thread gets HZ_ERROR_THREAD. All other handles
// may be used by any thread, many at a time, except a builder. Nobody may use a handle while or after another thread
// frees it.
//
// Interpreters. An object belongs to one interpreter, and is used in sessions on that one: others return
// HZ_ERROR_FOREIGN. Values, hz_plain, hz_bytes, buffers, DLPack tensors and movables go from one interpreter to
// another.
//
// Exceptions of C++ and longjmp must not pass through functions of this library.


#ifndef HYDROZOA_H
#define HYDROZOA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The structure of DLPack. It is declared in dlpack.h, or in hydrozoa_dlpack.h for those who do not have that file.
struct DLManagedTensor;
typedef struct DLManagedTensor DLManagedTensor;


// The version of the interface that this header describes. It is raised when a program that was built with an earlier
// header cannot use the library, and then the soname changes too.
#define HZ_ABI_VERSION 0

// The return value of a function. The numbers do not change, and new ones may be added after them.
typedef enum hz_status {
  // Success.
  HZ_OK = 0,
  // An argument is NULL, or the function does not accept its value.
  HZ_ERROR_INVALID_ARGUMENT = 1,
  // A session was used by a thread that did not acquire it.
  HZ_ERROR_THREAD = 2,
  // Python code raised an exception: hz_error_type_name, hz_error_traceback, hz_error_exception.
  HZ_ERROR_PYTHON = 3,
  // The call was interrupted by hz_interrupt_handle_interrupt.
  HZ_ERROR_INTERRUPTED = 4,
  // The call has exceeded the time limit of its session, or did not begin within it.
  HZ_ERROR_DEADLINE = 5,
  // An object cannot be converted to the requested form.
  HZ_ERROR_CONVERT = 6,
  // An object was used in another interpreter than its own.
  HZ_ERROR_FOREIGN = 7,
  // The interpreter of an object has ended, and the object with it.
  HZ_ERROR_ENDED = 8,
  // All interpreters are at their limit of sessions.
  HZ_ERROR_BUSY = 9,
  // An interpreter that was to end is still in use.
  HZ_ERROR_IN_USE = 10,
  // The pool has no interpreter with this index.
  HZ_ERROR_NO_SUCH_INTERPRETER = 11,
  // No usable Python was found.
  HZ_ERROR_PYTHON_NOT_FOUND = 12,
  // An interpreter did not start.
  HZ_ERROR_START = 13,
  // A setting that cannot be met.
  HZ_ERROR_CONFIGURATION = 14,
  // A package is unusable, or lacks the requested item.
  HZ_ERROR_PACKAGE = 15,
  // The machine refuses: the thread's stack is too small, a device or a file cannot be used.
  HZ_ERROR_SYSTEM = 16,
  // A defect of the library. The process is sound; free the objects that the call used.
  HZ_ERROR_PANIC = 17,
  // Code of the interpreter has crashed, in this call or before, and the crash was contained: hz_builder_contain_crashes,
  // hz_error_report. Free the interpreter's sessions and objects, and use another one.
  HZ_ERROR_CRASHED = 18,
} hz_status;

// How far a call has come.
typedef enum hz_stage {
  // It has not begun.
  HZ_STAGE_QUEUED = 0,
  // A worker runs it, or starts for it.
  HZ_STAGE_RUNNING = 1,
  // Its result is there.
  HZ_STAGE_ENDED = 2,
  // It never runs.
  HZ_STAGE_CANCELLED = 3,
} hz_stage;

// The kind of an hz_value.
typedef enum hz_value_kind {
  // None.
  HZ_VALUE_NONE = 0,
  // bool: `data.integer` is 0 or 1.
  HZ_VALUE_BOOL = 1,
  // int: `data.integer`.
  HZ_VALUE_INT = 2,
  // float: `data.real`.
  HZ_VALUE_FLOAT = 3,
  // str: `len` bytes of UTF-8 at `data.text`.
  HZ_VALUE_STR = 4,
  // bytes: `len` bytes at `data.bytes`.
  HZ_VALUE_BYTES = 5,
  // list: `len` values at `data.items`.
  HZ_VALUE_LIST = 6,
  // tuple: `len` values at `data.items`.
  HZ_VALUE_TUPLE = 7,
  // dict: `len` pairs, so 2 * `len` values, at `data.items`: a key, its value, the next key.
  HZ_VALUE_DICT = 8,
  // int of any size: `len` bytes at `data.bytes`, two's complement, the least significant first.
  HZ_VALUE_BIG_INT = 9,
  // Any object: `data.object`, of the interpreter that gets it.
  HZ_VALUE_OBJECT = 10,
} hz_value_kind;

// Memory that a Python object exports: bytes, bytearray, memoryview, array, arrays of numpy. While it lives, the
// exporter cannot move or free the memory, and the interpreter does not end. Any thread may use and free it.
//
// Nothing keeps Python code from writing the memory meanwhile, unless it is read-only there.
typedef struct hz_buffer hz_buffer;

// The settings of a pool. One thread uses it at a time.
typedef struct hz_builder hz_builder;

// Text or bytes that the caller owns. They do not change, belong to no interpreter, and any thread may use them.
typedef struct hz_bytes hz_bytes;

// A failure and its cause.
//
// The error of a Python exception keeps that exception, and the exception keeps the variables of the frames in its
// traceback. Free it where it is handled.
typedef struct hz_error hz_error;

// Interrupts the calls of one session. Any thread may use it, also after the session has been freed; then it
// interrupts nothing.
typedef struct hz_interrupt_handle hz_interrupt_handle;

// A call that was queued.
typedef struct hz_job hz_job;

// A message of a queue: bytes, and memory beside them. It does not change, and any thread may use it.
typedef struct hz_message hz_message;

// An object that every interpreter of a pool can use. Each loads its own copy at its first use, and all copies share
// the memory of their tensors and arrays. Any thread may use and free it. It keeps its pool.
typedef struct hz_movable hz_movable;

// A reference to a Python object. Any thread may hold, copy and free it, and it outlives the session that made it.
// It is used in a session on its interpreter.
//
// It does not keep its interpreter alive: once the interpreter has ended, using it returns HZ_ERROR_ENDED.
typedef struct hz_object hz_object;

// A package that torch.package has written, for one pool. Any thread may use and free it. It keeps its pool.
typedef struct hz_package hz_package;

// A copy of a value that consists of None, bool, int, float, str, bytes, list, tuple and dict. It belongs to no
// interpreter, does not change, and any thread may use it.
typedef struct hz_plain hz_plain;

// A pool of interpreters. Any thread may use it, many at a time.
typedef struct hz_pool hz_pool;

// A queue of messages, which the program and all interpreters of all pools may use, whatever their Python's version.
// Any thread may use and free it. Its messages are freed with the last reference to it.
typedef struct hz_queue hz_queue;

// The numbers of memory that was given back. A thread of the program's takes them by hz_returns_collect, and no thread of an
// interpreter calls the program: for runtimes with a lock of their own, such as a Python, and for those that end before the
// process does. Any thread may use it.
typedef struct hz_returns hz_returns;

// A lease on one interpreter. The thread that has acquired it uses it; any thread may free it when no call on it runs.
//
// A session keeps its interpreter alive. The objects of an interpreter are usable in each session on it.
typedef struct hz_session hz_session;

// Threads of the library that run calls, each in an interpreter of its own. All calls are of one Python function,
// which takes bytes, and memoryviews behind them, and returns bytes, or a tuple of bytes and objects with memory.
//
// Calls wait in one queue. Their results wait until somebody asks for them: until then no call needs a thread of the
// program.
typedef struct hz_workers hz_workers;

// The data of an hz_value. Its kind says which member is set.
typedef union hz_value_data {
  int64_t integer;
  double real;
  const char *text;
  const uint8_t *bytes;
  const struct hz_value *items;
  const struct hz_object *object;
} hz_value_data;

// A value. It refers to memory of its maker's, and owns nothing.
typedef struct hz_value {
  // An hz_value_kind.
  uint32_t kind;
  // Depends on the kind. 0 for those that need none.
  size_t len;
  // Depends on the kind.
  union hz_value_data data;
} hz_value;

// An argument with its name.
typedef struct hz_keyword {
  // UTF-8, ends with NUL.
  const char *name;
  struct hz_value value;
} hz_keyword;

// The layout of a buffer. All pointers live as long as the buffer.
typedef struct hz_buffer_info {
  // The first element.
  void *data;
  // The size of all elements, in bytes.
  size_t len;
  // The size of one element, in bytes.
  size_t item_size;
  // The format of one element, as in Python's module struct: "B", "d".
  const char *format;
  // The number of dimensions.
  size_t dimensions;
  // The extent of each dimension, in elements.
  const ptrdiff_t *shape;
  // The distance of neighbours in each dimension, in bytes.
  const ptrdiff_t *strides;
  // Whether it must not be written.
  bool read_only;
  // Whether the elements lie row by row without gaps.
  bool contiguous;
} hz_buffer_info;

// Called once when memory that was lent is no longer used, with the context that was given with it. It may be called
// by any thread, also inside of the call that lends the memory. It must return soon, must not throw, and must not call
// functions of this library on a session. A runtime that such a thread cannot enter, or that may end before the
// interpreters do, takes hz_returns_release instead of a function of its own.
typedef void (*hz_release)(void *context);

// Memory that goes without a copy.
typedef struct hz_memory {
  // The first byte.
  void *data;
  // The number of bytes.
  size_t len;
  // Whether it must not be written.
  bool read_only;
  // Called once with `context`, by any thread, when the memory is no longer used. The memory stays until then. NULL if
  // it stays for ever.
  hz_release release;
  // For `release`.
  void *context;
} hz_memory;

// The return value of a call. It lives as long as its job.
typedef struct hz_answer {
  // The bytes.
  const char *data;
  size_t len;
  // How many objects with memory there are beside them: hz_job_buffer.
  size_t buffers;
} hz_answer;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The status that the function returned. HZ_OK for NULL.
enum hz_status hz_error_status(const struct hz_error *error);

// The failure, the object it concerns, and what to do about it; for HZ_ERROR_PYTHON the text of the exception. It lives as
// long as the error. "" for NULL.
const char *hz_error_message(const struct hz_error *error);

// The type of the exception for HZ_ERROR_PYTHON, with its module unless it is built in: "ValueError",
// "json.decoder.JSONDecodeError". "" for other errors and for NULL. It lives as long as the error.
const char *hz_error_type_name(const struct hz_error *error);

// The traceback as Python prints it, with causes, frames and the last line, if the error is an exception or went
// through Python; else "". It lives as long as the error. "" for NULL.
const char *hz_error_traceback(const struct hz_error *error);

// The report of the crash for HZ_ERROR_CRASHED: the signal, the registers, the native stack and the stacks of Python. "" for
// other errors and for NULL. It lives as long as the error.
const char *hz_error_report(const struct hz_error *error);

// Frees an error. NULL is allowed.
void hz_error_free(struct hz_error *error);

// The default settings. The caller owns the result.
struct hz_builder *hz_builder_new(void);

// The number of interpreters. The default is one for each processor that the process may use.
enum hz_status hz_builder_interpreters(struct hz_builder *builder, size_t count, struct hz_error **error);

// The most sessions on each interpreter at a time; beyond that hz_pool_acquire waits. 0, the default, means unlimited.
enum hz_status hz_builder_max_sessions(struct hz_builder *builder, size_t count, struct hz_error **error);

// The Python: a libpython3.X.so, a python executable, the prefix of an installation, the directory of a virtual
// environment, or a version such as "3.12". The default is the best that is found.
enum hz_status hz_builder_python(struct hz_builder *builder, const char *python, struct hz_error **error);

// A virtual environment whose packages the interpreters see. Without hz_builder_python it also chooses the Python.
enum hz_status hz_builder_venv(struct hz_builder *builder, const char *directory, struct hz_error **error);

// Adds a directory to the front of `sys.path`, after those of earlier calls.
enum hz_status hz_builder_path(struct hz_builder *builder, const char *directory, struct hz_error **error);

// `sys.argv`. The default is one empty string.
enum hz_status hz_builder_arguments(struct hz_builder *builder,
                                    const char *const *arguments,
                                    size_t count,
                                    struct hz_error **error);

// Gives each interpreter environment variables of its own, and none of the process's: `count` texts of the form
// NAME=VALUE. docs/c.md says which libraries still read the process's.
enum hz_status hz_builder_environment(struct hz_builder *builder,
                                      const char *const *variables,
                                      size_t count,
                                      struct hz_error **error);

// Native libraries whose path matches the pattern exist once for all interpreters.
enum hz_status hz_builder_share(struct hz_builder *builder, const char *pattern, struct hz_error **error);

// Each interpreter has a replica of native libraries whose path matches the pattern.
enum hz_status hz_builder_replicate(struct hz_builder *builder, const char *pattern, struct hz_error **error);

// The most memory, in bytes, that the code of each interpreter may take; more is a MemoryError, or a null from malloc. 0, the
// default, means unlimited. Memory that libraries take from malloc counts, the data of torch's tensors does not.
enum hz_status hz_builder_memory_limit(struct hz_builder *builder,
                                       size_t bytes,
                                       struct hz_error **error);

// Imports modules when they are used, as the profile in the file says (docs/imports.md).
enum hz_status hz_builder_import_profile(struct hz_builder *builder, const char *file, struct hz_error **error);

// The directory, on a local disk, in which hz_pool_settle puts memory of interpreters.
enum hz_status hz_builder_settle_in(struct hz_builder *builder, const char *directory, struct hz_error **error);

// Settles each interpreter by itself in the directory, on a local disk, while nobody uses it: memory that it does not use moves to files
// without names. The files hold copies of Python's memory, secrets included. Builder::dense of the Rust crate says when, and what it costs.
enum hz_status hz_builder_dense(struct hz_builder *builder,
                                const char *directory,
                                struct hz_error **error);

// The optimisation level, as `python -O` (1) and `-OO` (2). The default is 0.
enum hz_status hz_builder_optimize(struct hz_builder *builder, uint8_t level, struct hz_error **error);

// The seed of hashes of str and bytes, as PYTHONHASHSEED. By default each interpreter has a random one.
enum hz_status hz_builder_hash_seed(struct hz_builder *builder, uint32_t seed, struct hz_error **error);

// Whether `sys.stdout` and `sys.stderr` write at once, as with `python -u`. Off by default.
enum hz_status hz_builder_unbuffered(struct hz_builder *builder, bool unbuffered, struct hz_error **error);

// Adds an option of the implementation, as `python -X`.
enum hz_status hz_builder_x_option(struct hz_builder *builder, const char *option, struct hz_error **error);

// Whether the pool replaces an interpreter whose call ignores its interrupt. Off by default.
enum hz_status hz_builder_replace_stuck(struct hz_builder *builder, bool replace, struct hz_error **error);

// Whether a crash in an interpreter's native code is HZ_ERROR_CRASHED of the calls into it, where nothing that all share is
// damaged (docs/hosting.md). Off by default: a crash ends the process.
enum hz_status hz_builder_contain_crashes(struct hz_builder *builder,
                                          bool contain,
                                          struct hz_error **error);

// Whether the pool replaces an interpreter that has crashed. On by default.
enum hz_status hz_builder_replace_crashed(struct hz_builder *builder, bool replace, struct hz_error **error);

// Starts the interpreters. The caller owns `pool`, and keeps the builder, which may build more pools.
enum hz_status hz_builder_build(const struct hz_builder *builder, struct hz_pool **pool, struct hz_error **error);

// Frees the settings. NULL is allowed.
void hz_builder_free(struct hz_builder *builder);

// Raises `_hydrozoa.interrupts.Interrupted`, a KeyboardInterrupt, in the Python code that a call of the session runs
// now, within about 10 ms. The call then returns HZ_ERROR_INTERRUPTED. True if there was such a call.
//
// Native code (a C function that waits or computes) is not interrupted: the exception is raised when it returns. This
// does not wait for the call. False for NULL.
bool hz_interrupt_handle_interrupt(const struct hz_interrupt_handle *handle);

// Frees it. NULL is allowed.
void hz_interrupt_handle_free(struct hz_interrupt_handle *handle);

// Calls `object(*arguments, **keywords)`. Empty `arguments` and `keywords` may be NULL. The caller owns `result`, which may
// be NULL.
enum hz_status hz_object_call(const struct hz_object *object,
                              const struct hz_session *session,
                              const struct hz_value *arguments,
                              size_t argument_count,
                              const struct hz_keyword *keywords,
                              size_t keyword_count,
                              struct hz_object **result,
                              struct hz_error **error);

// Calls `object.method(*arguments, **keywords)`, as hz_object_call.
enum hz_status hz_object_call_method(const struct hz_object *object,
                                     const struct hz_session *session,
                                     const char *method,
                                     const struct hz_value *arguments,
                                     size_t argument_count,
                                     const struct hz_keyword *keywords,
                                     size_t keyword_count,
                                     struct hz_object **result,
                                     struct hz_error **error);

// `getattr(object, name)`. The caller owns `value`.
enum hz_status hz_object_getattr(const struct hz_object *object,
                                 const struct hz_session *session,
                                 const char *name,
                                 struct hz_object **value,
                                 struct hz_error **error);

// `setattr(object, name, value)`.
enum hz_status hz_object_setattr(const struct hz_object *object,
                                 const struct hz_session *session,
                                 const char *name,
                                 const struct hz_value *value,
                                 struct hz_error **error);

// `object[key]`. The caller owns `value`.
enum hz_status hz_object_get_item(const struct hz_object *object,
                                  const struct hz_session *session,
                                  const struct hz_value *key,
                                  struct hz_object **value,
                                  struct hz_error **error);

// `object[key] = value`.
enum hz_status hz_object_set_item(const struct hz_object *object,
                                  const struct hz_session *session,
                                  const struct hz_value *key,
                                  const struct hz_value *value,
                                  struct hz_error **error);

// `len(object)`.
enum hz_status hz_object_len(const struct hz_object *object,
                             const struct hz_session *session,
                             size_t *len,
                             struct hz_error **error);

// `bool(object)`.
enum hz_status hz_object_truth(const struct hz_object *object,
                               const struct hz_session *session,
                               bool *truth,
                               struct hz_error **error);

// An `int`, or an object with `__index__`.
enum hz_status hz_object_to_int(const struct hz_object *object,
                                const struct hz_session *session,
                                int64_t *value,
                                struct hz_error **error);

// A `float`, or an object with `__float__`.
enum hz_status hz_object_to_float(const struct hz_object *object,
                                  const struct hz_session *session,
                                  double *value,
                                  struct hz_error **error);

// The text of a `str` as UTF-8. The caller owns `text`.
enum hz_status hz_object_to_text(const struct hz_object *object,
                                 const struct hz_session *session,
                                 struct hz_bytes **text,
                                 struct hz_error **error);

// The bytes of a `bytes` or a `bytearray`. The caller owns `bytes`.
enum hz_status hz_object_to_bytes(const struct hz_object *object,
                                  const struct hz_session *session,
                                  struct hz_bytes **bytes,
                                  struct hz_error **error);

// `str(object)`. The caller owns `text`.
enum hz_status hz_object_str(const struct hz_object *object,
                             const struct hz_session *session,
                             struct hz_bytes **text,
                             struct hz_error **error);

// `repr(object)`. The caller owns `text`.
enum hz_status hz_object_repr(const struct hz_object *object,
                              const struct hz_session *session,
                              struct hz_bytes **text,
                              struct hz_error **error);

// A copy of a value that consists of None, bool, int, float, str, bytes, bytearray, list, tuple and dict. Other
// objects in it are HZ_ERROR_CONVERT. The caller owns `plain`.
enum hz_status hz_object_to_plain(const struct hz_object *object,
                                  const struct hz_session *session,
                                  struct hz_plain **plain,
                                  struct hz_error **error);

// The exception object, in a session on its interpreter. The caller owns `exception`. It is NULL, with HZ_OK, if the
// error is not an exception.
enum hz_status hz_error_exception(const struct hz_error *failed,
                                  const struct hz_session *session,
                                  struct hz_object **exception,
                                  struct hz_error **error);

// Leases the least loaded interpreter to the calling thread. It waits only if the pool has a limit of sessions
// (hz_builder_max_sessions). The caller owns `session`.
enum hz_status hz_pool_acquire(const struct hz_pool *pool, struct hz_session **session, struct hz_error **error);

// Leases an interpreter with fewer sessions than the pool's limit, or with none if the pool has no limit. Waits for one
// at most for so long, and then returns HZ_ERROR_BUSY. 0 does not wait. The caller owns `session`.
enum hz_status hz_pool_acquire_timeout(const struct hz_pool *pool,
                                       uint64_t milliseconds,
                                       struct hz_session **session,
                                       struct hz_error **error);

// Leases the interpreter at `index`, from 0. It never waits. The caller owns `session`.
enum hz_status hz_pool_acquire_on(const struct hz_pool *pool,
                                  size_t index,
                                  struct hz_session **session,
                                  struct hz_error **error);

// The number of interpreters. 0 for NULL.
size_t hz_pool_size(const struct hz_pool *pool);

// The second number of the Python's version: 12 for Python 3.12. 0 for NULL.
uint32_t hz_pool_python_minor(const struct hz_pool *pool);

// Starts an interpreter and puts it in the place of the one at `index`, which ends when its last session does.
enum hz_status hz_pool_replace(const struct hz_pool *pool, size_t index, struct hz_error **error);

// Starts interpreters, or gives up those with the highest indexes, until the pool has `count`.
enum hz_status hz_pool_resize(const struct hz_pool *pool, size_t count, struct hz_error **error);

// Makes a module of source code that all interpreters can import by its name, also those that start later.
enum hz_status hz_pool_register_module(const struct hz_pool *pool,
                                       const char *name,
                                       const char *source,
                                       struct hz_error **error);

// Moves memory of the interpreters to unnamed files in the directory of hz_builder_settle_in, one interpreter after the other.
// The system reads a page back when it is used again; a page that is written becomes anonymous memory again. Call it once
// the interpreters have done their usual work. `left`, which may be NULL, gets the number of their bytes that are still
// anonymous. Calls wait while it runs. A running call keeps its interpreter from being settled: that is an error, and nothing
// is lost.
enum hz_status hz_pool_settle(const struct hz_pool *pool,
                              uint64_t *left,
                              struct hz_error **error);

// Takes the pool, also if it fails, and waits at most for so long until its interpreters have ended. HZ_ERROR_IN_USE
// names the object that still uses one; the interpreter ends by itself when that is freed.
enum hz_status hz_pool_close(struct hz_pool *pool, uint64_t milliseconds, struct hz_error **error);

// Gives the pool up. NULL is allowed. An interpreter ends when nothing uses it: no session, no buffer, no tensor of
// hz_object_to_dlpack, no package and no movable. This waits for the end of those that nothing else uses.
void hz_pool_free(struct hz_pool *pool);

// Whether code of the session's interpreter has crashed, and the crash was contained. Any thread may ask. False for NULL.
bool hz_session_has_crashed(const struct hz_session *session);

// Imports a module by its full name, as importlib.import_module does. The caller owns `module`, which may be NULL.
enum hz_status hz_session_import(const struct hz_session *session,
                                 const char *name,
                                 struct hz_object **module,
                                 struct hz_error **error);

// Runs the code of a module. `file_name` is what tracebacks show, and there need be no such file. The caller owns
// `module`, which may be NULL. The module is in `sys.modules` while it or a function of it lives.
enum hz_status hz_session_run(const struct hz_session *session,
                              const char *code,
                              const char *file_name,
                              struct hz_object **module,
                              struct hz_error **error);

// The value of one expression, in an empty namespace. The caller owns `value`, which may be NULL.
enum hz_status hz_session_eval(const struct hz_session *session,
                               const char *expression,
                               struct hz_object **value,
                               struct hz_error **error);

// A Python object of a value. The caller owns `object`.
enum hz_status hz_session_object(const struct hz_session *session,
                                 const struct hz_value *value,
                                 struct hz_object **object,
                                 struct hz_error **error);

// The most time that each later call on this session may take, in milliseconds. 0, the default, means unlimited. After it
// Python raises `_hydrozoa.interrupts.DeadlineExceeded`, a KeyboardInterrupt, within about 10 ms, and the call returns
// HZ_ERROR_DEADLINE. Time spent waiting for the GIL counts. Native code is not interrupted.
enum hz_status hz_session_set_time_limit(const struct hz_session *session,
                                         uint64_t milliseconds,
                                         struct hz_error **error);

// A handle by which other threads interrupt the calls of this session that begin from now on. The caller owns
// `handle`.
enum hz_status hz_session_interrupt_handle(const struct hz_session *session,
                                           struct hz_interrupt_handle **handle,
                                           struct hz_error **error);

// The position of the session's interpreter in its pool, from 0. SIZE_MAX for NULL. Any thread may ask.
size_t hz_session_interpreter(const struct hz_session *session);

// Ends the lease. NULL is allowed. If nothing else uses the interpreter, this waits for its end.
void hz_session_free(struct hz_session *session);

// The memory of an object, without a copy; with `writable` only if it may be written. The caller owns `buffer`.
enum hz_status hz_object_to_buffer(const struct hz_object *object,
                                   const struct hz_session *session,
                                   bool writable,
                                   struct hz_buffer **buffer,
                                   struct hz_error **error);

// A memoryview of the same memory, in the session's interpreter, which may be another one than the exporter's. The
// caller owns `view`. Memory that is not contiguous is HZ_ERROR_CONVERT.
enum hz_status hz_session_object_from_buffer(const struct hz_session *session,
                                             const struct hz_buffer *buffer,
                                             struct hz_object **view,
                                             struct hz_error **error);

// Writes the layout of a buffer to `info`.
enum hz_status hz_buffer_describe(const struct hz_buffer *buffer, struct hz_buffer_info *info, struct hz_error **error);

// The first byte. NULL for NULL.
void *hz_buffer_data(const struct hz_buffer *buffer);

// The size of all elements, in bytes. 0 for NULL.
size_t hz_buffer_len(const struct hz_buffer *buffer);

// Gives the memory back to its exporter: the next thread that enters the interpreter frees it. For a result of hz_workers that
// is the worker, as soon as it has no call, or this thread, when the worker has ended. NULL is allowed. If nothing else has the
// interpreter, this waits for its end.
void hz_buffer_free(struct hz_buffer *buffer);

// A memoryview over `len` bytes at `data`, without a copy. Unless `read_only`, Python may write them. The memory stays
// where it is until `release` is called with `context`: when Python no longer uses it, or at once if this function
// fails. `release` may be NULL for memory that stays for ever. The caller owns `view`.
enum hz_status hz_session_lend(const struct hz_session *session,
                               void *data,
                               size_t len,
                               bool read_only,
                               hz_release release,
                               void *context,
                               struct hz_object **view,
                               struct hz_error **error);

// A place for numbers. The caller owns the result.
struct hz_returns *hz_returns_new(void);

// A context for hz_returns_release, which is to be called with it once. NULL for NULL.
void *hz_returns_context(const struct hz_returns *returns, uint64_t number);

// An hz_release: hz_returns_collect names the number of the context. NULL is allowed. In a forked child of the process that
// has made the context it does nothing.
void hz_returns_release(void *context);

// Waits until memory was given back, and writes the numbers of at most `capacity` pieces to `numbers`. How many. 0 for NULL.
size_t hz_returns_collect(const struct hz_returns *returns,
                          uint64_t *numbers,
                          size_t capacity);

// Frees it. NULL is allowed. Memory given back later is forgotten. No thread may be waiting in hz_returns_collect.
void hz_returns_free(struct hz_returns *returns);

// A tensor's memory as an object of Python, without a copy: a torch.Tensor if the interpreter has imported torch, else
// an array of numpy if it has imported numpy, else an object with `__dlpack__`. The caller owns `object`.
//
// This takes `tensor`, also if it fails: the tensor's deleter is called once, by any thread, when Python no longer
// uses the memory or when this function fails. Python may write the memory.
enum hz_status hz_session_object_from_dlpack(const struct hz_session *session,
                                             DLManagedTensor *tensor,
                                             struct hz_object **object,
                                             struct hz_error **error);

// The memory of an object with `__dlpack__` (torch.Tensor, arrays of numpy and others), without a copy. Memory that
// must not be written is HZ_ERROR_CONVERT, since the structure cannot say so.
//
// The caller owns `tensor`, and calls its deleter once, on any thread. Until then the memory stays, and the
// interpreter does not end. If nothing else has the interpreter, the deleter waits for its end.
enum hz_status hz_object_to_dlpack(const struct hz_object *object,
                                   const struct hz_session *session,
                                   DLManagedTensor **tensor,
                                   struct hz_error **error);

// Lets Python code of the session's interpreter use queues, movables and packages of the program. It finds them by their
// numbers (hz_queue_id, hz_movable_id, hz_package_id); one that the program has freed is a LookupError. The caller owns
// `companion`, which has these functions:
//
// `queue(id)` and `new_queue(max_len=0)` give a queue. `queue.put(data, views=(), seconds=0)` puts bytes and the memory of
// memoryviews without gaps, and returns False if the queue was full. `queue.get(seconds=0)` returns a tuple of bytes and a
// list of memoryviews, or None. Both wait without the interpreter's GIL. An interrupt is raised after they return, so write a
// long wait as a loop of short ones. `len(queue)`, `queue.id` and `queue.max_len` work too.
//
// `movable(id)` is the interpreter's copy of a movable, which is loaded at its first use. `module(package, name)` is a
// module of a package.
enum hz_status hz_session_companion(const struct hz_session *session,
                                    struct hz_object **companion,
                                    struct hz_error **error);

// A queue of at most `max_len` messages, of any number if that is 0. The caller owns the result.
struct hz_queue *hz_queue_new(size_t max_len);

// The queue whose hz_queue_id is `id`. The caller owns `queue`, which is NULL, with HZ_OK, if nobody has that queue any
// more.
enum hz_status hz_queue_from_id(uint64_t id, struct hz_queue **queue, struct hz_error **error);

// A number that no other queue of this process has or gets. 0 for NULL.
uint64_t hz_queue_id(const struct hz_queue *queue);

// The most messages that it holds. 0 is any number, and for NULL.
size_t hz_queue_max_len(const struct hz_queue *queue);

// How many messages it holds just now. 0 for NULL.
size_t hz_queue_len(const struct hz_queue *queue);

// Puts `len` bytes at `data`, which are copied, and `memory_count` pieces of memory, which are not. Waits for room at
// most for so long. `is_put` says whether there was room. If so, this has taken the memory.
enum hz_status hz_queue_put(const struct hz_queue *queue,
                            const void *data,
                            size_t len,
                            const struct hz_memory *memory,
                            size_t memory_count,
                            uint64_t milliseconds,
                            bool *is_put,
                            struct hz_error **error);

// Takes the first message. Waits for one at most for so long. The caller owns `message`, which is NULL, with HZ_OK, if
// none has come.
enum hz_status hz_queue_get(const struct hz_queue *queue,
                            uint64_t milliseconds,
                            struct hz_message **message,
                            struct hz_error **error);

// Gives a reference up. NULL is allowed.
void hz_queue_free(struct hz_queue *queue);

// The first byte of the message's bytes. It lives as long as `message`. NULL for NULL.
const char *hz_message_data(const struct hz_message *message);

// The number of the message's bytes. 0 for NULL.
size_t hz_message_len(const struct hz_message *message);

// How many pieces of memory the message has. 0 for NULL.
size_t hz_message_memory_count(const struct hz_message *message);

// A piece of the message's memory, from 0. The caller calls `release` of the result once, with its `context`, on any
// thread. The memory stays until then, also if the message is freed before.
enum hz_status hz_message_memory(const struct hz_message *message,
                                 size_t index,
                                 struct hz_memory *memory,
                                 struct hz_error **error);

// Frees it. NULL is allowed.
void hz_message_free(struct hz_message *message);

// Makes an object movable. It is pickled once; its functions and classes travel by name. The caller owns `movable`.
enum hz_status hz_session_create_movable(const struct hz_session *session,
                                         const struct hz_object *object,
                                         struct hz_movable **movable,
                                         struct hz_error **error);

// Calls `object(*arguments, **keywords)` on the least loaded interpreter of the pool, on the calling thread. The
// caller owns `result`, a copy of what the call returns as of hz_object_to_plain. It may be NULL.
//
// For results of other kinds, there are hz_movable_acquire, hz_movable_to_object and hz_object_call.
enum hz_status hz_movable_call(const struct hz_movable *movable,
                               const struct hz_value *arguments,
                               size_t argument_count,
                               const struct hz_keyword *keywords,
                               size_t keyword_count,
                               struct hz_plain **result,
                               struct hz_error **error);

// A session on the least loaded interpreter, on one that has a copy if there is a choice. The caller owns `session`.
enum hz_status hz_movable_acquire(const struct hz_movable *movable,
                                  struct hz_session **session,
                                  struct hz_error **error);

// The copy of the session's interpreter, which is loaded at its first use there. The caller owns `object`, which may
// be NULL.
enum hz_status hz_movable_to_object(const struct hz_movable *movable,
                                    const struct hz_session *session,
                                    struct hz_object **object,
                                    struct hz_error **error);

// Drops the copy of the session's interpreter. A later use loads it again.
enum hz_status hz_movable_unload(const struct hz_movable *movable,
                                 const struct hz_session *session,
                                 struct hz_error **error);

// A number that no other movable of this process has or gets: hz_session_companion. 0 for NULL.
uint64_t hz_movable_id(const struct hz_movable *movable);

// Gives the movable up. NULL is allowed. Each interpreter drops its copy when it is next entered.
void hz_movable_free(struct hz_movable *movable);

// Opens a package for a pool. The caller owns `package`.
enum hz_status hz_pool_load_package(const struct hz_pool *pool,
                                    const char *file,
                                    struct hz_package **package,
                                    struct hz_error **error);

// Loads an object that the package has pickled, as `importer.load_pickle(package, resource)`. One interpreter loads it
// now, each other one at its first use. All share the weights. The caller owns `movable`.
enum hz_status hz_package_load_pickle(const struct hz_package *package,
                                      const char *name,
                                      const char *resource,
                                      struct hz_movable **movable,
                                      struct hz_error **error);

// A text resource, as `importer.load_text(package, resource)`. The caller owns `content`.
enum hz_status hz_package_load_text(const struct hz_package *package,
                                    const char *name,
                                    const char *resource,
                                    struct hz_bytes **content,
                                    struct hz_error **error);

// A binary resource, as `importer.load_binary(package, resource)`. The caller owns `content`.
enum hz_status hz_package_load_binary(const struct hz_package *package,
                                      const char *name,
                                      const char *resource,
                                      struct hz_bytes **content,
                                      struct hz_error **error);

// A module of the package, by its plain name, in the session's interpreter. The caller owns `module`, which may be
// NULL.
enum hz_status hz_package_import(const struct hz_package *package,
                                 const struct hz_session *session,
                                 const char *name,
                                 struct hz_object **module,
                                 struct hz_error **error);

// A number that no other package of this process has or gets: hz_session_companion. 0 for NULL.
uint64_t hz_package_id(const struct hz_package *package);

// Gives the package up. NULL is allowed. Its movables keep what they need of it.
void hz_package_free(struct hz_package *package);

// The first byte. A zero that does not count follows the last one, so text without zeros is a text of C. It lives as
// long as `bytes`. NULL for NULL.
const char *hz_bytes_data(const struct hz_bytes *bytes);

// The number of bytes. 0 for NULL.
size_t hz_bytes_len(const struct hz_bytes *bytes);

// Frees them. NULL is allowed.
void hz_bytes_free(struct hz_bytes *bytes);

// One more reference to the same object. It needs no session. NULL for NULL. The caller owns the result.
struct hz_object *hz_object_clone(const struct hz_object *object);

// Gives a reference up. NULL is allowed. It never waits: if the last reference is given up outside of a call, the next
// thread that enters the interpreter frees the object.
void hz_object_free(struct hz_object *object);

// The value. It lives as long as `plain`, with all that it refers to. It may be an argument of a call in any
// interpreter. A zero that does not count follows each text. NULL for NULL.
const struct hz_value *hz_plain_value(const struct hz_plain *plain);

// Frees it. NULL is allowed.
void hz_plain_free(struct hz_plain *plain);

// The version of the library that runs, such as "0.1.0". It lives as long as the library.
const char *hz_version(void);

// HZ_ABI_VERSION of the library that runs.
uint32_t hz_abi_version(void);

// Workers for calls of a function. `module` and `function` are its names in the interpreters. The caller owns
// `workers`.
//
// hz_workers_collect returns UINT64_MAX in place of a tag when a call was submitted that no idle worker will take at once,
// until there are `most` workers. hz_workers_enlist helps then. So one thread starts all workers, and the submitting threads
// do not. With 0 it never does.
enum hz_status hz_workers_new(const char *module,
                              const char *function,
                              size_t most,
                              struct hz_workers **workers,
                              struct hz_error **error);

// A new worker, whose number is written to `number`: 0, 1 and so on. If calls wait, the first of them begins: it runs when
// this worker is open, or another one is free. hz_workers_start starts its thread. With `only_if_few` there is no new worker,
// and `number` is SIZE_MAX, unless calls wait that no idle worker will take at once.
enum hz_status hz_workers_enlist(const struct hz_workers *workers,
                                 bool only_if_few,
                                 size_t *number,
                                 struct hz_error **error);

// Starts the thread of a worker, with a session on the interpreter at `index` of the pool. The function's module gets the
// object of hz_session_companion, as `companion`. The worker runs its own calls, and after hz_workers_open also those for
// any worker. If the interpreter cannot be used, its own calls fail and say why. If the interpreter at `index` has crashed, another one
// is put in its place first.
//
// If the interpreter crashes in a call (hz_builder_contain_crashes), that call and the worker's own ones fail with
// HZ_ERROR_CRASHED, and the worker ends: hz_workers_lost. A call that waits for it to open runs when another worker is free.
enum hz_status hz_workers_start(const struct hz_workers *workers,
                                size_t number,
                                const struct hz_pool *pool,
                                size_t index,
                                const char *name,
                                struct hz_error **error);

// Writes the number of a worker that has ended since its interpreter has crashed to `number`, each once. False if there is none. Another
// worker may be enlisted in its place: it does not count among the `most` of hz_workers_new.
bool hz_workers_lost(const struct hz_workers *workers,
                     size_t *number);

// From now on the worker also takes calls for any worker.
void hz_workers_open(const struct hz_workers *workers, size_t number);

// Queues a call with `len` bytes at `data`, which are copied, and `memory_count` pieces of memory, which are not, and are
// given back also if this fails. It is for the worker with the number `worker`, or for any if that is SIZE_MAX.
// hz_workers_collect reports it by `tag`. HZ_ERROR_ENDED says that the workers were closed. The caller owns `job`, which is
// written before the call begins.
enum hz_status hz_workers_submit(const struct hz_workers *workers,
                                 size_t worker,
                                 uint64_t tag,
                                 const char *data,
                                 size_t len,
                                 const struct hz_memory *memory,
                                 size_t memory_count,
                                 struct hz_job **job,
                                 struct hz_error **error);

// Waits for ended calls whose results nobody else looks for, and writes the tags of at most `capacity` of them to `tags`.
// Returns how many. 0 says that the workers were closed, and that all threads have ended. Each tag is written once,
// whichever thread calls this.
size_t hz_workers_collect(const struct hz_workers *workers,
                          uint64_t *tags,
                          size_t capacity);

// Interrupts the call that a worker runs, as hz_interrupt_handle_interrupt. True if there was one.
bool hz_workers_interrupt(const struct hz_workers *workers, size_t number);

// Accepts no further calls: the queued ones run, and then the threads end.
void hz_workers_close(const struct hz_workers *workers);

// As hz_workers_close, but calls that have not begun, or wait for a worker to open, end with HZ_ERROR_ENDED.
void hz_workers_abandon(const struct hz_workers *workers);

// Closes the workers and gives them up. NULL is allowed. It waits for nothing.
void hz_workers_free(struct hz_workers *workers);

// How far a call has come. HZ_STAGE_CANCELLED for NULL.
enum hz_stage hz_job_stage(const struct hz_job *job);

// Takes a call out of the queue. True if it never runs; false if it has begun. Its memory is given back.
bool hz_job_cancel(const struct hz_job *job);

// Looks for the result for so many microseconds, without sleep: for short calls. True if the result has come and is the
// caller's: then no other call of this returns true, and hz_workers_collect does not name the call, unless it has done so
// before.
bool hz_job_claim(const struct hz_job *job,
                  uint64_t microseconds);

// Makes hz_workers_collect name a call that was claimed.
void hz_job_give_back(const struct hz_job *job);

// The return value of a call that has ended, or its error. HZ_ERROR_BUSY says that it has not ended.
enum hz_status hz_job_answer(const struct hz_job *job, struct hz_answer *answer, struct hz_error **error);

// The memory of an object that a call has returned beside its bytes: `index` counts from 0. It is given back when the job and
// each buffer of it have been freed. The caller owns `buffer`.
enum hz_status hz_job_buffer(const struct hz_job *job,
                             size_t index,
                             struct hz_buffer **buffer,
                             struct hz_error **error);

// Gives a call up, which goes on. NULL is allowed.
void hz_job_free(struct hz_job *job);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HYDROZOA_H */

#include "hydrozoa_values.h"
