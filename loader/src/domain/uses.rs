//! The reasons that keep replicas of a domain loaded: open handles, and marks to stay for good.

use std::collections::{HashMap, HashSet};

use crate::image::ImageId;

/// The replicas that opened replicas lead to, in their order of ending (glibc's `l_initfini`).
pub(crate) type Opened = HashMap<ImageId, Vec<ImageId>>;

/// The reasons that keep replicas of a domain loaded.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    handles: HashMap<ImageId, usize>,
    kept: HashSet<ImageId>,
    /// The replicas that were opened since they were loaded, whether or not a handle is still open.
    pub opened: Opened,
    /// Whether a close is unloading now, and must check once more.
    pub closing: bool,
    pub again: bool,
}

impl Uses {
    /// Adds one handle.
    pub(crate) fn open(&mut self, image: ImageId) {
        *self.handles.entry(image).or_default() += 1;
    }

    /// Keeps the image's replica for good. False if it was kept already.
    pub(crate) fn keep(&mut self, image: ImageId) -> bool {
        self.kept.insert(image)
    }

    /// Removes the marks of an open that failed.
    pub(crate) fn withdraw(&mut self, image: ImageId, kept: bool) {
        self.close(image);
        if kept {
            self.kept.remove(&image);
        }
    }

    /// Notes that no close is unloading: a fork left the thread that did so in the parent process.
    pub(crate) fn stop_closing(&mut self) {
        (self.closing, self.again) = (false, false);
    }

    /// Whether the image's replica stays for good.
    pub(crate) fn keeps(&self, image: ImageId) -> bool {
        self.kept.contains(&image)
    }

    /// Removes one handle; false if the image had none.
    pub(crate) fn close(&mut self, image: ImageId) -> bool {
        match self.handles.get_mut(&image) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => drop(self.handles.remove(&image)),
            None => return false,
        }
        true
    }

    pub(crate) fn roots(&self) -> impl Iterator<Item = ImageId> + '_ {
        self.handles.keys().chain(&self.kept).copied()
    }
}
