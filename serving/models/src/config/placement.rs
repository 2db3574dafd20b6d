//! Where the instances of a model run, as its configuration says.

use crate::config::{InstanceGroup, Kind};
use hydrozoa::package::MapLocation;

/// The names of a model's instances, with where they run.
pub(crate) fn instances(groups: &[InstanceGroup]) -> Vec<(String, &'static str, i32)> {
    let mut all = Vec::new();
    for group in groups {
        let (kind, devices) = match group.kind {
            Kind::Gpu => ("GPU", if group.gpus.is_empty() { vec![0] } else { group.gpus.clone() }),
            Kind::Model => ("MODEL", vec![0]),
            Kind::Auto | Kind::Cpu => ("CPU", vec![0]),
        };
        for device in &devices {
            for number in 0..group.count {
                let name = match kind {
                    "GPU" => format!("{}_{number}_gpu{device}", group.name),
                    _ => format!("{}_{number}", group.name),
                };
                all.push((name, kind, *device));
            }
        }
    }
    all
}

/// Where an instance has the tensors of its package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Location {
    /// Where they were when it was built.
    Saved,
    Processor,
    Gpu(i32),
}

impl Location {
    /// That of an instance as [`instances`] tells of it.
    pub(crate) fn of(kind: &str, device: i32) -> Self {
        match kind {
            "GPU" => Self::Gpu(device),
            "MODEL" => Self::Saved,
            _ => Self::Processor,
        }
    }

    /// In torch's words; none if every tensor stays where it was saved.
    pub(crate) fn name(self) -> Option<String> {
        match self {
            Self::Saved => None,
            Self::Processor => Some("cpu".to_owned()),
            Self::Gpu(number) => Some(format!("cuda:{number}")),
        }
    }

    pub(crate) fn map(self) -> Option<MapLocation> {
        self.name().map(MapLocation::from)
    }
}
