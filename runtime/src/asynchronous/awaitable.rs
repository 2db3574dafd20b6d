//! Rust futures that coroutines await.

use super::job::caught;
use super::mailbox::Mailbox;
use crate::convert::ToPython;
use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};

impl Session {
    /// Makes a Python coroutine that awaits a Rust future: for a host function to return
    /// ([`Session::function`]), or to pass as an argument.
    ///
    /// The coroutine can be awaited once, on any event loop of asyncio that has `add_reader`: that of
    /// [`Interpreter::event_loop`](crate::Interpreter::event_loop), or one that Python code runs. asyncio's functions take it
    /// as they take coroutines. The future begins with the `await`. When the awaiting task is cancelled, the future is
    /// dropped.
    ///
    /// The future is polled on the thread of the event loop, under its GIL, as a host function is. A poll must not wait: not
    /// for other threads, nor for a lock that a thread keeps while it waits for this GIL. A wake-up may come from any thread,
    /// and waits for no GIL.
    ///
    /// An error of the future is raised in Python as that of a host function is. A panic is raised as a `RuntimeError`
    /// ([`Error::Panic`]).
    ///
    /// Futures of tokio that need its runtime (timers, sockets) must be polled inside of it:
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn f(session: &hydrozoa::Session, runtime: tokio::runtime::Handle) -> hydrozoa::Result<()> {
    /// let sleep = session.function("sleep", move |session, arguments| {
    ///     let pause = Duration::from_secs_f64(arguments.extract(0)?);
    ///     let runtime = runtime.clone();
    ///     let mut future = Box::pin(async move {
    ///         tokio::time::sleep(pause).await;
    ///         Ok("awake")
    ///     });
    ///     session.awaitable(std::future::poll_fn(move |context| {
    ///         let _entered = runtime.enter();
    ///         future.as_mut().poll(context)
    ///     }))
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `MemoryError` as [`Error::Python`].
    pub fn awaitable<F, R>(&self, future: F) -> Result<Object<'_>>
    where
        F: Future<Output = Result<R>> + Send + 'static,
        R: ToPython,
    {
        let polled = Mutex::new(Polled { future: Some(Box::pin(future)), alarm: None });
        self.with_gil(|| {
            let poll = self.function("poll", move |session, arguments| {
                if arguments.is_empty() {
                    return session.object_from(&Mailbox::new()?.for_python(session)?);
                }
                let polled = polled.try_lock();
                let mut polled = polled
                    .map_err(|_| Error::raise("RuntimeError", "the future is being polled"))?;
                match polled.poll(arguments.extract(0)?, arguments.extract(1)?)? {
                    Poll::Ready(result) => session.object_from(&(result,)),
                    Poll::Pending => session.none(),
                }
            })?;
            self.import("_hydrozoa.events")?.call_method("awaitable", (poll,))
        })
    }
}

/// A future and its waker.
struct Polled<F> {
    /// `None` when it has ended.
    future: Option<Pin<Box<F>>>,
    alarm: Option<Arc<Alarm>>,
}

impl<F, R> Polled<F>
where
    F: Future<Output = Result<R>>,
{
    /// Polls the future for the event loop with this mailbox.
    fn poll(&mut self, mailbox: u64, number: u64) -> Result<Poll<R>> {
        let alarm = self.alarm.get_or_insert_with(|| {
            let mailbox = Mailbox::find(mailbox).unwrap_or_default();
            Arc::new(Alarm { mailbox, number, is_ringing: AtomicBool::new(false) })
        });
        // A wake-up after this moment asks for one more poll.
        alarm.is_ringing.store(false, Ordering::SeqCst);
        let waker = Waker::from(alarm.clone());
        let Some(future) = &mut self.future else {
            return Err(Error::raise("RuntimeError", "the future has ended"));
        };
        let mut context = Context::from_waker(&waker);
        let polled =
            caught("a future that Python awaits", || match future.as_mut().poll(&mut context) {
                Poll::Pending => Ok(Poll::Pending),
                Poll::Ready(result) => result.map(Poll::Ready),
            });
        if !matches!(polled, Ok(Poll::Pending)) {
            self.future = None;
        }
        polled
    }
}

/// Has an event loop poll a future again.
struct Alarm {
    /// It ends with the event loop.
    mailbox: Weak<Mailbox>,
    number: u64,
    /// Whether the loop knows.
    is_ringing: AtomicBool,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_ringing.swap(true, Ordering::SeqCst)
            && let Some(mailbox) = self.mailbox.upgrade()
        {
            mailbox.wake(self.number);
        }
    }
}
