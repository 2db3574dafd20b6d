//! A sealed application's command.

use crate::command_line::CommandLine;
use crate::sealed::{Application, EntryPoint, MARK};
use crate::{Error, Result, entry};
use std::env;
use std::ffi::{OsStr, OsString};

impl Application {
    /// Runs the application with these arguments, and returns its exit status. `program` is the program's name, as it was called.
    /// `None`: it was sealed to serve its packages, which is for the caller to do.
    ///
    /// If another process of the application has called it as a python, it is that ([`Application::is_called_as_python`]). Several
    /// [copies](Application::copies) of an entry find their numbers, from 1, in `os.environ["HYDROZOA_COPY"]`.
    ///
    /// # Errors
    ///
    /// As [`CommandLine::run`], and [`Error::Configuration`] if the process has other threads: variables are set in its
    /// environment. It is for the beginning of [`c_main!`](crate::c_main).
    pub fn run(&self, program: &OsStr, arguments: Vec<OsString>) -> Result<Option<i32>> {
        let as_python = self.is_called_as_python(&arguments);
        self.set_variables()?;
        let runs_python = as_python || *self.entry() == EntryPoint::Python;
        if !runs_python && *self.entry() == EntryPoint::Serve {
            return Ok(None);
        }
        if runs_python {
            return CommandLine::new(None, None, arguments)?.signal_handlers(true).run().map(Some);
        }
        if self.copies() == 1 {
            return CommandLine::sealed(program, arguments)?.signal_handlers(true).run().map(Some);
        }
        entry::begin_as_rust();
        let command = |copy: usize| {
            let command = CommandLine::sealed(program, &arguments)?;
            Ok(command.variable("HYDROZOA_COPY", copy.to_string()))
        };
        let commands = (1..=self.copies()).map(command).collect::<Result<Vec<_>>>()?;
        let statuses = CommandLine::run_at_once(commands)?;
        Ok(Some(statuses.into_iter().find(|status| *status != 0).unwrap_or(0)))
    }

    /// Sets the variables by which children and libraries know that it is sealed.
    fn set_variables(&self) -> Result<()> {
        if std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count) != 1 {
            return Err(Error::Configuration(
                "a sealed application is run before the process has other threads".to_owned(),
            ));
        }
        // SAFETY: no other thread exists that could use the environment.
        unsafe {
            env::set_var(MARK, "1");
            if !self.allows("certs") {
                // libcrypto reads its settings from a file of the machine, unless this names another.
                env::set_var("OPENSSL_CONF", "/dev/null");
            }
        }
        Ok(())
    }
}
