//! `cargo xtask lab page`: the page of `hydrozoa serve` in a real browser, with models under load.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::environment::{self, Environment};
use crate::server::{Server, free_ports, request};
use crate::{python, tools, workspace};

/// Options of `cargo xtask lab page`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// A command `hydrozoa` that is there already; without it one is built
    #[arg(long, value_name = "FILE")]
    command: Option<PathBuf>,
    /// The folder for the pictures
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
}

/// The browser, and Debian's package of it.
const BROWSER: [(&str, &str); 1] = [("chromium", "chromium")];

const CONFIG: &str = "
max_batch_size: 8
dynamic_batching {}
input [ { name: \"IN\" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: \"OUT\" data_type: TYPE_FP32 dims: [ -1 ] } ]
";

const MODEL: &str = "
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(PAUSE)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', pb_utils.get_input_tensor_by_name(r, 'IN').as_numpy())])
                for r in requests]
";

/// Models, their instances, how many seconds an execution takes, and the clients that call them all the time.
const MODELS: [(&str, usize, f64, usize); 4] = [
    ("classifier", 3, 0.01, 2),
    ("tokenizer", 1, 0.0, 1),
    ("translator-with-a-long-name", 2, 0.3, 12),
    ("unused", 1, 0.0, 0),
];

/// A picture: its name, the window's size, and whether it is dark.
const PICTURES: [(&str, usize, usize, bool); 4] = [
    ("light", 1280, 1200, false),
    ("dark", 1280, 1200, true),
    ("small-light", 400, 1800, false),
    ("small-dark", 400, 1800, true),
];

/// How long the browser shows the page, in its own time: the page asks for figures every two seconds.
const SHOWN: Duration = Duration::from_secs(9);

/// Serves models under load, looks at the page in Chromium, and makes pictures of it. Returns an error if the page does
/// not show the expected content, if it changes nothing while it is shown, or if the browser complains.
pub fn run(arguments: &Arguments) -> Result<()> {
    tools::install(&BROWSER)?;
    let python = python::find(arguments.environment.python.as_ref())?;
    let environment = Environment::with_numpy(python)?;
    let command = match &arguments.command {
        Some(command) => command.clone(),
        None => workspace::build("hydrozoa-cli", "hydrozoa")?,
    };
    let pictures = match &arguments.pictures {
        Some(folder) => folder.clone(),
        None => workspace::target()?.join("page"),
    };
    fs::create_dir_all(&pictures).with_context(|| format!("making {}", pictures.display()))?;
    let models = tempfile::tempdir().context("a folder for models")?;
    for (name, instances, pause, _) in MODELS {
        let config = format!("{CONFIG}instance_group [ {{ count: {instances} }} ]\n");
        write(models.path(), name, &config, &MODEL.replace("PAUSE", &pause.to_string()))?;
    }
    write(models.path(), "broken", CONFIG, "raise ImportError('<b>not</b> today')")?;
    let server = start(&command, environment.root(), models.path(), pictures.join("server.log"))?;
    let port = server.port();
    for (name, _, _, clients) in MODELS {
        for _ in 0..clients {
            // They end with the process.
            thread::spawn(move || while infer(port, name).is_ok() {});
        }
    }
    // The first page has memory measured; those behind it show it.
    send(port, "GET /", "")?;
    thread::sleep(Duration::from_secs(3));
    let browser =
        Browser { profile: tempfile::tempdir()?, page: format!("http://127.0.0.1:{port}/") };
    check(&browser, &send(port, "GET /", "")?)?;
    for (name, width, height, is_dark) in PICTURES {
        let path = pictures.join(format!("{name}.png"));
        browser.picture(&path, (width, height), is_dark)?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Checks the page in a browser, and its content without JavaScript: `first`, as it arrives.
fn check(browser: &Browser, first: &str) -> Result<()> {
    let (live, console) = browser.document()?;
    ensure!(!console.contains("CONSOLE"), "the browser complains:\n{console}");
    for (what, document) in [("live", live.as_str()), ("without JavaScript", first)] {
        for words in [
            "classifier_0_2",
            "translator-with-a-long-name_0_1",
            "&lt;b&gt;not",
            "MiB",
            "unavailable",
        ] {
            ensure!(
                document.contains(words),
                "the page ({what}) does not show {words:?}:\n{document}"
            );
        }
    }
    // The script draws its samples: at least two points.
    let drawn = live.matches("<path d=\"M").count();
    ensure!(drawn == MODELS.len(), "{drawn} of {} courses are drawn:\n{live}", MODELS.len());
    ensure!(!first.contains("<path d=\"M"), "without JavaScript something is drawn");
    println!("the page shows {} models, live and without JavaScript", MODELS.len() + 1);
    Ok(())
}

fn write(folder: &Path, name: &str, config: &str, model: &str) -> Result<()> {
    let folder = folder.join(name);
    fs::create_dir_all(folder.join("1"))?;
    fs::write(folder.join("config.pbtxt"), config)?;
    fs::write(folder.join("1/model.py"), model)?;
    Ok(())
}

fn start(command: &Path, venv: &Path, models: &Path, log: PathBuf) -> Result<Server> {
    let [port, _] = free_ports()?;
    let mut started = Command::new(command);
    started.arg("serve").arg(models).arg("--venv").arg(venv).arg("--exit-on-error=false");
    started.args(["--http-address", "127.0.0.1", "--metrics-port", "0", "--allow-grpc=false"]);
    started.args(["--strict-readiness=false", "--http-port", &port.to_string()]);
    let is_ready = |server: &Server| server.log().contains("the server is ready");
    Server::start("hydrozoa serve", &mut started, port, log, is_ready)
}

fn infer(port: u16, model: &str) -> Result<String> {
    let body = r#"{"inputs":[{"name":"IN","datatype":"FP32","shape":[1,2],"data":[1,2]}]}"#;
    // So a client leaves the processor to others.
    thread::sleep(Duration::from_millis(20));
    send(port, &format!("POST /v2/models/{model}/infer"), body)
}

fn send(port: u16, line: &str, body: &str) -> Result<String> {
    let (status, answer) = request(port, line, body)?;
    ensure!(status == 200, "{answer}");
    Ok(answer)
}

struct Browser {
    profile: tempfile::TempDir,
    page: String,
}

impl Browser {
    fn command(&self) -> Command {
        let mut command = Command::new(BROWSER[0].0);
        // Root has no sandbox; the page is our own.
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        command.arg(format!("--user-data-dir={}", self.profile.path().display()));
        command.arg(format!("--virtual-time-budget={}", SHOWN.as_millis()));
        command.arg("--enable-logging=stderr");
        command
    }

    /// The document after some time, and the browser's log.
    fn document(&self) -> Result<(String, String)> {
        let output = self.command().arg("--dump-dom").arg(&self.page).output();
        let output = output.context("starting chromium")?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "chromium has failed:\n{log}");
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), log))
    }

    fn picture(&self, path: &Path, (width, height): (usize, usize), is_dark: bool) -> Result<()> {
        let mut command = self.command();
        command.arg(format!("--window-size={width},{height}"));
        // Blink counts dark as 0, and light as 1.
        command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)));
        command.arg(format!("--screenshot={}", path.display())).arg(&self.page);
        let output = command.output().context("starting chromium")?;
        let is_there = fs::metadata(path).is_ok_and(|file| file.len() > 0);
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && is_there, "chromium has made no picture:\n{log}");
        Ok(())
    }
}
