//! The exit handlers of one program among several.
//!
//! The C library has one list of exit handlers for a process, and `__cxa_finalize`, which each library calls at its end,
//! goes through all of it (stdlib/cxa_finalize.c). A large C++ library registers ten thousand handlers. With one for each
//! domain the ends of many domains would take time quadratic in their number, and the list some 0.7 MiB for each.
//!
//! So a domain keeps a list of its own, as a program does, in the usual order: last registered, first called. The C
//! library's list holds *marks* of it. A mark stands for the handlers that were registered from some place on, and calls those
//! not yet called. Each handler gets a mark, except for those that the constructors of one library register: they
//! share one at the first of them, and one after the last. So a handler always runs before all those registered before it,
//! as in one program. Handlers of constructors also run before those that a library of the system registered while these
//! constructors ran; one program would interleave them.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::current;
use crate::domain;
use crate::id::DomainId;
use crate::sys::exit::{__cxa_atexit, __cxa_finalize, Handler};
use crate::sys::guard;
use crate::sys::lock::{Mutex, Rank, fork, undisturbed};

/// The handlers of one domain.
#[derive(Debug)]
pub(crate) struct Exits(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    domain: DomainId,
    list: Mutex<List>,
    /// Whether marks have become void.
    has_ended: AtomicBool,
}

/// In the C library's list: calls the handlers of `of` from the place `from` on.
struct Mark {
    of: Arc<Shared>,
    from: usize,
}

#[derive(Debug, Default)]
struct List {
    /// In the order of their registrations. Places do not change, so a handler that was called leaves a gap.
    handlers: Vec<Registered>,
    /// Their owners.
    owners: Vec<Owner>,
    /// How many have been registered in all.
    count: u64,
    /// Running constructors, the innermost last.
    constructions: Vec<Construction>,
}

#[derive(Debug)]
struct Registered {
    handler: Option<Handler>,
    argument: usize,
}

/// The handlers from the place `first` to the next owner's have been registered with `handle`.
#[derive(Debug)]
struct Owner {
    first: usize,
    handle: usize,
}

/// The constructors of one library, run by one thread.
#[derive(Debug)]
struct Construction {
    thread: u64,
    /// The place of the first handler that they have registered.
    first: Option<usize>,
}

/// While it lives, the calling thread runs constructors of one library.
#[must_use = "the constructors end when this is dropped"]
pub(crate) struct Constructing<'a>(&'a Exits);

impl Exits {
    pub(crate) fn of(domain: DomainId) -> Exits {
        let list = Mutex::new(Rank::Exits, List::default());
        Exits(Arc::new(Shared { domain, list, has_ended: AtomicBool::new(false) }))
    }

    /// Registers a handler, as `__cxa_atexit` does, and returns its status: 0, or another number if memory is exhausted.
    pub(crate) fn register(&self, handler: Handler, argument: usize, handle: usize) -> c_int {
        let (place, is_marked) = self.0.list.lock().add(handler, argument, handle);
        if is_marked {
            return 0;
        }
        let result = self.mark(place);
        if result != 0 {
            self.0.list.lock().remove(place);
        }
        result
    }

    /// Notes that the calling thread begins with the constructors of a library.
    pub(crate) fn constructing(&self) -> Constructing<'_> {
        let construction = Construction { thread: fork::number(), first: None };
        self.0.list.lock().constructions.push(construction);
        Constructing(self)
    }

    /// Calls the handlers whose handle `is_meant` accepts, last registered first, and those that they register meanwhile.
    pub(crate) fn finalize(&self, is_meant: impl Fn(usize) -> bool) {
        let mut below = usize::MAX;
        let mut count = 0;
        loop {
            let (place, registered) = {
                let list = &mut *self.0.list.lock();
                // As in the C library, handlers registered meanwhile come first.
                if list.count != count {
                    (below, count) = (usize::MAX, list.count);
                }
                let Some(found) = list.take_last(0..below, &is_meant) else { return };
                found
            };
            below = place;
            registered.call(0);
        }
    }

    /// Forgets all handlers, and takes the marks out of the C library's list.
    pub(crate) fn end(&self) {
        self.0.has_ended.store(true, Ordering::Release);
        let forgotten = std::mem::take(&mut *self.0.list.lock());
        if forgotten.count == 0 {
            return;
        }
        // A fork leaves the lock of that list as it is.
        // SAFETY: the handle is only compared. The functions of the marks free them, and do nothing else.
        undisturbed(|| unsafe { __cxa_finalize(self.handle()) });
    }

    /// Registers a mark with the C library.
    fn mark(&self, from: usize) -> c_int {
        let mark = Box::into_raw(Box::new(Mark { of: self.0.clone(), from }));
        // SAFETY: the function takes the box that the argument is.
        let result = undisturbed(|| unsafe { __cxa_atexit(at_mark, mark.cast(), self.handle()) });
        if result != 0 {
            // SAFETY: it was not registered, so this is its only use.
            drop(unsafe { Box::from_raw(mark) });
        }
        result
    }

    /// The handle that the marks are registered with: an address that nobody else uses.
    fn handle(&self) -> *mut c_void {
        Arc::as_ptr(&self.0).cast_mut().cast()
    }
}

impl Drop for Constructing<'_> {
    fn drop(&mut self) {
        let first = {
            let list = &mut *self.0.0.list.lock();
            let thread = fork::number();
            let place = list.constructions.iter().rposition(|one| one.thread == thread);
            let construction = place.map(|place| list.constructions.remove(place));
            let first = construction.and_then(|construction| construction.first);
            first.filter(|first| list.handlers.len() > first + 1)
        };
        if first.is_some_and(|first| self.0.mark(first) != 0) {
            tracing::warn!("no memory: at an exit, handlers of a library's constructors run late");
        }
    }
}

/// Calls the handlers that a mark stands for.
unsafe extern "C-unwind" fn at_mark(mark: *mut c_void, status: c_int) {
    // SAFETY: made by `Exits::mark` for this call alone: the C library calls a function once.
    let Mark { of, from } = *unsafe { Box::from_raw(mark.cast::<Mark>()) };
    if of.has_ended.load(Ordering::Acquire) || current::is_left_behind(of.domain) {
        return;
    }
    if domain::by_id(of.domain).is_some_and(|domain| domain.is_busy()) {
        // Nor do older ones: the data that they destroy was there first.
        of.has_ended.store(true, Ordering::Release);
        return;
    }
    // SAFETY: until the guard's end only code of the domain runs.
    let _inside = unsafe { current::enter(of.domain) };
    loop {
        let Some((_, registered)) = of.list.lock().take_last(from..usize::MAX, |_| true) else {
            return;
        };
        registered.call(status);
    }
}

impl Registered {
    fn call(self, status: c_int) {
        let Some(handler) = self.handler else { return };
        // SAFETY: registered so by code of a replica, which is mapped until it was finalized.
        unsafe {
            guard::call_or_end(
                "an exit handler",
                handler as usize,
                [self.argument, status as usize, 0],
            )
        };
    }
}

impl List {
    /// Adds a handler. Returns its place, and whether a mark stands for it, or will.
    fn add(&mut self, handler: Handler, argument: usize, handle: usize) -> (usize, bool) {
        let place = self.handlers.len();
        self.handlers.push(Registered { handler: Some(handler), argument });
        if self.owners.last().is_none_or(|owner| owner.handle != handle) {
            self.owners.push(Owner { first: place, handle });
        }
        self.count += 1;
        let thread = fork::number();
        let construction = self.constructions.iter_mut().rfind(|one| one.thread == thread);
        let is_marked = construction.is_some_and(|construction| {
            // An exit on another thread may have emptied the list meanwhile.
            let is_marked = construction.first.is_some_and(|first| first <= place);
            if !is_marked {
                construction.first = Some(place);
            }
            is_marked
        });
        (place, is_marked)
    }

    /// Removes a handler that could not be marked.
    fn remove(&mut self, place: usize) {
        if let Some(registered) = self.handlers.get_mut(place) {
            registered.handler = None;
        }
        for construction in &mut self.constructions {
            construction.first.take_if(|first| *first == place);
        }
    }

    /// Removes the last handler whose place is in `places` and whose handle `is_meant` accepts.
    fn take_last(
        &mut self,
        places: Range<usize>,
        is_meant: impl Fn(usize) -> bool,
    ) -> Option<(usize, Registered)> {
        self.trim();
        let mut end = self.handlers.len().min(places.end);
        let owners = self.owners.partition_point(|owner| owner.first < end);
        for owner in self.owners[..owners].iter().rev() {
            let first = owner.first.max(places.start);
            if is_meant(owner.handle) {
                let taken = (first..end).rev().find_map(|place| {
                    let registered = &mut self.handlers[place];
                    let handler = registered.handler.take()?;
                    let argument = registered.argument;
                    Some((place, Registered { handler: Some(handler), argument }))
                });
                if taken.is_some() {
                    return taken;
                }
            }
            if owner.first <= places.start {
                return None;
            }
            end = owner.first;
        }
        None
    }

    /// Forgets the gaps at the end.
    fn trim(&mut self) {
        let is_left = |registered: &Registered| registered.handler.is_some();
        let length = self.handlers.iter().rposition(is_left).map_or(0, |last| last + 1);
        self.handlers.truncate(length);
        let owners = self.owners.partition_point(|owner| owner.first < length);
        self.owners.truncate(owners);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: c_int) {}

    fn arguments(list: &mut List, places: Range<usize>, handle: Option<usize>) -> Vec<usize> {
        let is_meant = |one| handle.is_none_or(|handle| handle == one);
        let take = move || list.take_last(places.clone(), is_meant);
        std::iter::from_fn(take).map(|(_, registered)| registered.argument).collect()
    }

    fn list(handles: &[usize]) -> List {
        let mut list = List::default();
        for (place, handle) in handles.iter().enumerate() {
            assert_eq!(list.add(nothing, 100 + place, *handle), (place, false));
        }
        list
    }

    #[test]
    fn handlers_come_last_first_by_handle_and_from_a_place_on() {
        let mut of_all = list(&[7, 7, 8, 7, 8, 9]);
        assert_eq!(arguments(&mut of_all, 3..usize::MAX, None), [105, 104, 103]);
        assert_eq!(of_all.add(nothing, 200, 7).0, 3);
        assert_eq!(arguments(&mut of_all, 0..usize::MAX, Some(7)), [200, 101, 100]);
        assert_eq!(arguments(&mut of_all, 0..usize::MAX, None), [102]);
        assert!(of_all.handlers.is_empty() && of_all.owners.is_empty());
    }

    #[test]
    fn those_of_a_construction_need_one_mark_at_their_first() {
        let mut list = List::default();
        let thread = fork::number();
        list.constructions.push(Construction { thread, first: None });
        list.constructions.push(Construction { thread: thread + 1, first: None });
        let marked: Vec<bool> = (0..3).map(|_| list.add(nothing, 1, 7).1).collect();
        assert_eq!(marked, [false, true, true]);
        assert_eq!(list.constructions[0].first, Some(0));
        list.remove(0);
        assert_eq!((list.constructions[0].first, list.add(nothing, 1, 7)), (None, (3, false)));
    }
}
