//! The machines that a release is for.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Machine {
    /// The machine that makes the release.
    X86_64,
    /// Compiled by the Rust of the Debian that `cargo xtask aarch64` makes.
    Aarch64,
}

impl Machine {
    /// Its name in tags of wheels.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Its name for compilers.
    pub fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }

    /// The tag of a release's wheel (PEP 600).
    pub fn tag(self) -> String {
        format!("manylinux_2_28_{}", self.name())
    }

    /// The name of a program of the binutils that reads its files.
    pub fn binutils(self, program: &str) -> String {
        match self {
            Self::X86_64 => program.to_owned(),
            Self::Aarch64 => format!("aarch64-linux-gnu-{program}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Machine;
    use clap::ValueEnum;

    #[test]
    fn a_machine_is_asked_for_by_its_name() {
        for machine in Machine::value_variants() {
            assert_eq!(Machine::from_str(machine.name(), false), Ok(*machine));
        }
    }
}
