//! The program's queues, movables and packages, for the interpreters' Python code.

use super::channel::{Channel, Message};
use super::queue::QUEUES;
use crate::boundary::{guarded, hz_error, hz_status, slot};
use crate::interpreters::{hz_session, object_in};
use crate::memory::KeptMemory;
use crate::shared::{MOVABLES, Numbered, PACKAGES};
use crate::values::hz_object;
use runtime::{Arguments, Buffer, Class, ClassBuilder, Error, Instance, Object, Result, Session};
use std::sync::Arc;
use std::time::Duration;

/// Lets Python code of the session's interpreter use queues, movables and packages of the program. It finds them by their
/// numbers (hz_queue_id, hz_movable_id, hz_package_id); one that the program has freed is a LookupError. The caller owns
/// `companion`, which has these functions:
///
/// `queue(id)` and `new_queue(max_len=0)` give a queue. `queue.put(data, views=(), seconds=0)` puts bytes and the memory of
/// memoryviews without gaps, and returns False if the queue was full. `queue.get(seconds=0)` returns a tuple of bytes and a
/// list of memoryviews, or None. Both wait without the interpreter's GIL. An interrupt is raised after they return, so write a
/// long wait as a loop of short ones. `len(queue)`, `queue.id` and `queue.max_len` work too.
///
/// `movable(id)` is the interpreter's copy of a movable, which is loaded at its first use. `module(package, name)` is a
/// module of a package.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_session_companion(
    session: Option<&hz_session>,
    companion: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    guarded!(error, {
        let companion = slot(companion, "companion")?;
        object_in(session, companion, |session| session.class::<Companion>())
    })
}

pub(crate) struct Companion;

impl Class for Companion {
    const NAME: &'static str = "companion";
    const MODULE: &'static str = "_hydrozoa";
    const DOC: &'static str = "The program's queues, movables and packages, for its interpreters.";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        class
            .static_method("queue(id)", "The queue of a number.", |session, arguments| {
                let queue = found(&arguments, "queue", |id| QUEUES.find(id))?;
                session.object_from(&Instance::from(queue))
            })
            .static_method(
                "new_queue(max_len=0)",
                "A new queue. 0 is any length.",
                |session, arguments| {
                    let most: usize = arguments.parameter(0, "max_len")?;
                    let queue = QUEUES.add(Channel::new((most > 0).then_some(most)));
                    session.object_from(&Instance::from(queue))
                },
            )
            .static_method("movable(id)", "This interpreter's copy.", |session, arguments| {
                found(&arguments, "movable", |id| MOVABLES.find(id))?.to_object(session)
            })
            .static_method("module(id, name)", "A module of a package.", |session, arguments| {
                let package = found(&arguments, "package", |id| PACKAGES.find(id))?;
                package.import_module(session, &arguments.parameter::<String>(1, "name")?)
            });
    }
}

/// The value with the number in the first argument.
fn found<T>(
    arguments: &Arguments<'_>,
    kind: &str,
    find: impl FnOnce(u64) -> Option<Arc<Numbered<T>>>,
) -> Result<Arc<Numbered<T>>> {
    let id = arguments.parameter(0, "id")?;
    find(id)
        .ok_or_else(|| Error::raise("LookupError", format!("nobody has the {kind} {id} any more")))
}

impl Class for Numbered<Channel> {
    const NAME: &'static str = "queue";
    const MODULE: &'static str = "_hydrozoa";
    const DOC: &'static str = "A queue of messages between the program and its interpreters.";

    fn define(class: &mut ClassBuilder<'_, Self>) {
        class
            .method(
                "put(data, views=(), seconds=0)",
                "Whether there was room.",
                |channel, session, arguments| put(channel, session, &arguments),
            )
            .method(
                "get(seconds=0)",
                "Bytes and memoryviews, or None.",
                |channel, session, arguments| get(channel, session, &arguments),
            )
            .method("__len__()", "", |channel, session, _| session.object_from(&channel.len()))
            .getter("id", "Its number.", |channel, session| session.object_from(&channel.id()))
            .getter("max_len", "The most messages, or 0.", |channel, session| {
                session.object_from(&channel.capacity().unwrap_or(0))
            });
    }
}

fn put<'s>(
    channel: &Channel,
    session: &'s Session,
    arguments: &Arguments<'s>,
) -> Result<Object<'s>> {
    let limit = duration(arguments.parameter(2, "seconds")?);
    let place = match channel.reserve(Duration::ZERO) {
        None if !limit.is_zero() => waiting(session, || channel.reserve(limit)),
        place => place,
    };
    let Some(place) = place else { return session.object_from(&false) };
    let data = arguments.parameter(0, "data")?;
    let views: Vec<Buffer> = arguments.parameter(1, "views")?;
    if !views.iter().all(Buffer::is_contiguous) {
        return Err(Error::raise("BufferError", "memory with gaps cannot be put into a queue"));
    }
    let has_memory = !views.is_empty();
    let memory = views.into_iter().map(|view| Arc::new(KeptMemory::Exported(view))).collect();
    place.put(Message { data, memory });
    if has_memory {
        waiting(session, || ());
    }
    session.object_from(&true)
}

fn get<'s>(
    channel: &Channel,
    session: &'s Session,
    arguments: &Arguments<'s>,
) -> Result<Object<'s>> {
    let limit = duration(arguments.parameter(0, "seconds")?);
    let message = match channel.get(Duration::ZERO) {
        None if !limit.is_zero() => waiting(session, || channel.get(limit)),
        message => message,
    };
    let Some(message) = message else { return session.none() };
    if session.interpreter().has_crashed() {
        // It crashed while this thread waited, which leaves it now.
        channel.put_back(message);
        return session.none();
    }
    let views = message.views(session)?;
    session.object_from(&(message.data, views))
}

/// Runs `action` without the GIL. First it frees this interpreter's objects that others gave up: a function that puts for
/// hours is one call, and no thread enters the interpreter meanwhile.
fn waiting<R>(session: &Session, action: impl FnOnce() -> R) -> R {
    session.without_gil(|| {
        session.interpreter().drain();
        action()
    })
}

/// An invalid duration counts as zero.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
