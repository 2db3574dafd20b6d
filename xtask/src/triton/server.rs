//! Triton's server as NVIDIA publishes it on PyPI: the wheel of PyTriton has the server, its Python backend and what that
//! needs. It runs without a GPU.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::Entry;
use crate::python::Python;
use crate::suite::check;
use crate::venv;

/// The wheel, of 55 MB.
const WHEEL: &str = "nvidia-pytriton==0.7.0";

/// How long a server may take to start with all its models, and to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the wheel's files lie.
pub struct Triton {
    folder: PathBuf,
}

impl Triton {
    /// Installs the wheel in the cache, unless an earlier run did.
    pub fn install(python: &Python) -> Result<Self> {
        let entry = Entry::open(&format!("triton-{}", WHEEL.replace("==", "-")))?;
        entry.complete(|folder| {
            eprintln!("installing {WHEEL}, which has Triton's server (55 MB)");
            let mut pip = venv::clean(Command::new(&python.executable));
            pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]);
            pip.args(["--no-compile", "--progress-bar=off", "--disable-pip-version-check"]);
            ensure!(
                check(pip.arg("--target").arg(folder).arg(WHEEL))?.failures.is_empty(),
                "pip failed"
            );
            Ok(())
        })?;
        Ok(Self { folder: entry.folder().to_owned() })
    }

    fn files(&self) -> PathBuf {
        self.folder.join("pytriton/tritonserver")
    }

    /// Puts the server's own Python backend for CPython 3.`minor` into a folder of backends.
    pub fn own_backend(&self, minor: u8, backends: &Path) -> Result<()> {
        let python = backends.join("python");
        fs::create_dir_all(&python)?;
        let from = self.files();
        let stub = format!("python_backend_stubs/3.{minor}/triton_python_backend_stub");
        ensure!(
            from.join(&stub).exists(),
            "{WHEEL} has no Python backend for CPython 3.{minor}; `--python` names another one"
        );
        for file in [
            "backends/python/libtriton_python.so",
            "backends/python/triton_python_backend_utils.py",
            &stub,
        ] {
            let name = Path::new(file).file_name().context("a file has a name")?;
            fs::copy(from.join(file), python.join(name))
                .with_context(|| format!("copying {file}"))?;
        }
        Ok(())
    }

    /// Starts a server with folders of backends and of models. Its Python is that of the virtual environment, the first on PATH.
    pub fn start(&self, folders: [PathBuf; 2], venv: &Path, log: &Path) -> Result<Server> {
        let [http, metrics] = free_ports()?;
        let mut command = self.command(folders, venv, [http, metrics])?;
        command.stdin(Stdio::null());
        let output =
            fs::File::create(log).with_context(|| format!("creating {}", log.display()))?;
        command.stdout(output.try_clone()?).stderr(output).process_group(0);
        let child = command.spawn().context("starting tritonserver")?;
        let mut server = Server { child, http, metrics, log: log.to_owned() };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The server's command line with all models of a folder, with the ports of HTTP and of metrics.
    pub fn command(
        &self,
        [backends, models]: [PathBuf; 2],
        venv: &Path,
        [http, metrics]: [u16; 2],
    ) -> Result<Command> {
        let own = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(venv.join("bin")).chain(std::env::split_paths(&own));
        let mut command = venv::clean(Command::new(self.files().join("bin/tritonserver")));
        command.arg(format!("--model-repository={}", models.display()));
        command.arg(format!("--backend-directory={}", backends.display()));
        command.args(["--model-control-mode=explicit", "--load-model=*", "--exit-timeout-secs=20"]);
        command.args([
            "--allow-grpc=false",
            "--http-address=127.0.0.1",
            "--metrics-address=127.0.0.1",
        ]);
        command.arg(format!("--http-port={http}")).arg(format!("--metrics-port={metrics}"));
        command.env("PATH", std::env::join_paths(path)?);
        // The library's folder of the stub of the Python backend, and that of the base Python.
        let library = libpython(venv)?;
        let search = [self.folder.join("nvidia_pytriton.libs"), library];
        command.env("LD_LIBRARY_PATH", std::env::join_paths(search)?);
        command.env("OMP_NUM_THREADS", "1");
        Ok(command)
    }
}

/// The folder of libpython of an environment's base Python.
fn libpython(venv: &Path) -> Result<PathBuf> {
    let program = "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))";
    let output = venv::python(venv).args(["-c", program]).output().context("starting python")?;
    ensure!(output.status.success(), "{} has no working Python", venv.display());
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// Two ports that nobody listens at.
pub fn free_ports() -> Result<[u16; 2]> {
    // Both are open at the same time, so they are two.
    let [one, other] = [0, 0].map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    Ok([one?.local_addr()?.port(), other?.local_addr()?.port()])
}

/// A server that runs. Dropping it kills it.
pub struct Server {
    child: Child,
    /// The port of its HTTP.
    pub http: u16,
    /// The port of its metrics.
    pub metrics: u16,
    log: PathBuf,
}

impl Server {
    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.http)) else {
            return false;
        };
        let request = b"GET /v2/health/ready HTTP/1.0\r\nHost: localhost\r\n\r\n";
        let mut answer = [0; 12];
        stream.write_all(request).and_then(|()| stream.read_exact(&mut answer)).is_ok()
            && answer.ends_with(b"200")
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let limit = Instant::now() + PATIENCE;
        while !self.is_ready() {
            if let Some(status) = self.child.try_wait()? {
                bail!("tritonserver has ended: {status}\n{}", self.errors());
            }
            ensure!(Instant::now() < limit, "tritonserver does not get ready\n{}", self.errors());
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Lets it end by itself, as an operator does. All models are unloaded then.
    pub fn end(mut self) -> Result<()> {
        let kill = Command::new("kill").arg(self.child.id().to_string()).status();
        ensure!(kill.context("starting kill")?.success(), "kill failed");
        let limit = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break status,
                None => {
                    ensure!(Instant::now() < limit, "tritonserver does not end\n{}", self.errors())
                }
            }
            sleep(Duration::from_millis(50));
        };
        ensure!(status.success(), "tritonserver has ended with {status}\n{}", self.errors());
        let log = String::from_utf8_lossy(&fs::read(&self.log)?).into_owned();
        // What the server says if something still has a model.
        ensure!(
            !log.contains("Exit timeout expired"),
            "a model was not unloaded\n{}",
            self.errors()
        );
        Ok(())
    }

    /// The lines of the log that tell of errors, and the last ones.
    fn errors(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let first = lines.len().saturating_sub(20);
        let errors = lines
            .iter()
            .enumerate()
            .filter(|(place, line)| *place >= first || line.starts_with('E'));
        errors.map(|(_, line)| *line).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
