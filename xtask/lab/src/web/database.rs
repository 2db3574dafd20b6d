//! A PostgreSQL of its own in a folder that is removed with it, reached by a socket in that folder.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::server::Server;

/// Where Debian's packages put the programs of a release, which are not on PATH.
const PROGRAMS: &str = "/usr/lib/postgresql/*/bin";

/// The user that Debian's package makes. PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// How long it may take to end.
const END: Duration = Duration::from_secs(20);

/// The server. Dropping it ends it.
pub struct Database {
    /// Before the folder, so that it ends first.
    server: Server,
    folder: TempDir,
}

impl Database {
    /// Makes an empty database and starts the server.
    ///
    /// # Errors
    ///
    /// PostgreSQL is not installed, or does not start.
    pub fn start() -> Result<Self> {
        let programs = programs()?;
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data");
        fs::create_dir(&data).context("making a folder")?;
        let user = user()?;
        for path in [folder.path(), &data] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
            if let Some((user, group)) = user {
                chown(path, Some(user), Some(group)).context("giving a folder to postgres")?;
            }
        }
        let program = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.current_dir(folder.path()).arg("-D").arg(&data);
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command
        };
        let made = program("initdb")
            .args(["--username", USER, "--auth", "trust", "--encoding", "UTF8", "--no-locale"])
            .output()
            .context("starting initdb")?;
        let words = String::from_utf8_lossy(&made.stderr);
        ensure!(made.status.success(), "initdb failed ({}): {words}", made.status);
        let mut command = program("postgres");
        command.arg("-k").arg(folder.path()).args(["-c", "listen_addresses="]);
        // Keeping data over a crash would cost time that is not the server's. Each worker has a connection.
        command.args(["-c", "fsync=off", "-c", "max_connections=500"]);
        let log = folder.path().join("log");
        let is_ready = |server: &Server| server.log().contains("ready to accept connections");
        let server = Server::start("PostgreSQL", &mut command, 0, log, is_ready)?;
        Ok(Self { server, folder })
    }

    /// Its address, as SQLAlchemy reads it.
    pub fn address(&self) -> String {
        let folder = self.folder.path().display();
        format!("postgresql+psycopg://{USER}@/postgres?host={folder}")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Err(error) = self.server.end(END) {
            eprintln!("PostgreSQL: {error:#}");
        }
    }
}

/// The folder with the programs of the newest release.
fn programs() -> Result<PathBuf> {
    let found = glob::glob(PROGRAMS)?.flatten().filter(|folder| folder.join("initdb").exists());
    let release = |folder: &PathBuf| {
        let release = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        release.and_then(|release| release.parse::<u32>().ok())
    };
    found.max_by_key(release).context("PostgreSQL is not installed: `apt-get install postgresql`")
}

/// The numbers of the user that runs it and of its group; nothing if this user can.
fn user() -> Result<Option<(u32, u32)>> {
    // The files of a process are its user's (proc(5)).
    if fs::metadata("/proc/self").context("reading /proc")?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").context("reading /etc/passwd")?;
    let fields = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&USER))
        .with_context(|| format!("PostgreSQL does not run as root, and there is no user {USER}"))?;
    match fields[..] {
        [_, _, user, group, ..] => Ok(Some((user.parse()?, group.parse()?))),
        _ => Err(anyhow::anyhow!("/etc/passwd has no numbers of {USER}")),
    }
}
