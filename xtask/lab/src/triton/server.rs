//! Triton's server as NVIDIA publishes it on PyPI: the wheel of PyTriton has the server, its Python backend and what that
//! needs. It runs without a GPU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cache::CacheFolder;
use crate::python::Python;
use crate::server::{Server, free_ports};
use crate::steps::check;
use crate::{uv, venv};

/// The wheel, of 55 MB.
const WHEEL: &str = "nvidia-pytriton==0.7.0";

/// How long a server may take to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the wheel's files lie.
pub struct Triton {
    folder: PathBuf,
}

impl Triton {
    /// Installs the wheel in the cache, unless an earlier run did.
    pub fn install(python: &Python) -> Result<Self> {
        let entry = CacheFolder::open(&format!("triton-{}", WHEEL.replace("==", "-")))?;
        entry.complete(|folder| {
            eprintln!("installing {WHEEL}, which has Triton's server (55 MB)");
            let mut uv = uv::install(python, &python.executable)?;
            uv.args(["--quiet", "--no-deps", "--target"]).arg(folder);
            ensure!(check(uv.arg(WHEEL))?.failures.is_empty(), "uv failed");
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
    pub fn start(&self, folders: [PathBuf; 2], venv: &Path, log: &Path) -> Result<TritonServer> {
        let ports = free_ports()?;
        let mut command = self.command(folders, venv, ports)?;
        let is_ready = |server: &Server| server.answers("/v2/health/ready");
        let log = log.to_owned();
        let server = Server::start("tritonserver", &mut command, ports[0], log, is_ready)?;
        Ok(TritonServer { server, metrics: ports[1] })
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

/// A server that runs.
pub struct TritonServer {
    pub server: Server,
    /// The port of its metrics.
    pub metrics: u16,
}

impl TritonServer {
    /// Lets it end by itself, as an operator does. All models are unloaded then.
    pub fn end(mut self) -> Result<()> {
        let status = self.server.end(PATIENCE)?;
        let errors = self.server.errors();
        let status = status.with_context(|| format!("tritonserver does not end\n{errors}"))?;
        ensure!(status.success(), "tritonserver has ended with {status}\n{errors}");
        // The server logs this if something still holds a model.
        let is_held = self.server.log().contains("Exit timeout expired");
        ensure!(!is_held, "a model was not unloaded\n{errors}");
        Ok(())
    }
}
