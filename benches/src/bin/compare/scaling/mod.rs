//! One packaged model called by several threads at once: on one interpreter, on one interpreter each, in processes, in
//! prefork children, and as TorchScript from Rust. The figure of the paper on torch::deploy that shows how each scales.

mod pool;

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use hydrozoa_measure::contender::plain_python;
use hydrozoa_measure::machine::Machine;
pub use pool::PackagedPool;
use serde::{Deserialize, Serialize};

use crate::field::Field;
use crate::measured::{self, Figures};
use crate::ours::Ours;

/// Numbers of callers, as in the paper's figure.
const CALLERS: [usize; 3] = [1, 2, 4];

/// Workers of the contenders that have one for each caller.
const WORKERS: usize = CALLERS[CALLERS.len() - 1];

/// Where the model is, and what calls it.
#[derive(clap::Args, Clone, Serialize, Deserialize)]
pub struct Packaged {
    /// The model's name in the catalogue
    #[arg(long)]
    model: String,
    /// The package, with model/model.pkl and model/example.pkl
    #[arg(long)]
    package: PathBuf,
    /// The bytes that plain python made of the model's result
    #[arg(long)]
    expected: PathBuf,
    /// The folder of check.py, which makes them, and of catalogue.py
    #[arg(long)]
    catalogue: PathBuf,
    /// The virtual environment with torch
    #[arg(long)]
    venv: PathBuf,
    /// The virtual environment that has the models' implementations too, for the rivals
    #[arg(long)]
    models: PathBuf,
    /// The folder of scaling.py, benches/python
    #[arg(long)]
    scripts: PathBuf,
}

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    packaged: Packaged,
    /// The model draws random numbers from one generator for each interpreter: one caller at a time, and no more
    #[arg(long)]
    draws: bool,
    /// The program that calls TorchScript, the folder of libtorch, the module and the bytes of its result
    #[arg(long, num_args = 4, value_names = ["PROGRAM", "LIBTORCH", "MODULE", "EXPECTED"])]
    scripted: Option<Vec<PathBuf>>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// How often everything is measured; medians are reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// A contender with a number of callers.
#[derive(Debug, Serialize)]
struct Row {
    machine: String,
    #[serde(flatten)]
    figures: Figures,
}

/// Prints the rows as one line of JSON.
pub fn run(options: &Options) -> Result<()> {
    let mut field = start(options)?;
    let measured = measured::in_turns(&mut field, "", options.rounds, options.seconds)?;
    let machine = Machine::this().words();
    let row = |figures| Row { machine: machine.clone(), figures };
    let figures = measured.iter().map(|one| Figures::of(one, &measured, ("processes", 1)));
    println!("{}", serde_json::to_string(&figures.map(row).collect::<Vec<_>>())?);
    Ok(())
}

/// Starts all contenders, which stay for all numbers of callers.
fn start(options: &Options) -> Result<Field> {
    let packaged = &options.packaged;
    let mut field = Field::default();
    let add = |field: &mut Field, name: &str, interpreters| {
        let pool = PackagedPool { packaged: packaged.clone(), interpreters };
        field.add(name, &mut Ours::Packaged(pool).command()?)
    };
    let one = add(&mut field, "1 interpreter", 1)?;
    let each = add(&mut field, &format!("{WORKERS} interpreters"), WORKERS)?;
    let (processes, prefork) = field.add_processes(WORKERS, || packaged.rival())?;
    let scripted = match options.scripted.as_deref() {
        Some([program, libtorch, module, expected]) => {
            let mut command = Command::new(program);
            command.arg(module).arg(expected).env("LD_LIBRARY_PATH", libtorch);
            Some(field.add("TorchScript", &mut command)?)
        }
        _ => None,
    };
    for callers in CALLERS {
        if callers == 1 || !options.draws {
            field.line("one interpreter", "threads", callers, vec![one], callers);
        }
        field.line("interpreters", "interpreters", callers, vec![each], callers);
        field.line("processes", "processes", callers, processes[..callers].to_vec(), 1);
        field.line("prefork", "prefork", callers, vec![prefork], 1);
        if let Some(scripted) = scripted {
            field.line("TorchScript", "scripted", callers, vec![scripted], callers);
        }
    }
    Ok(field)
}

impl Packaged {
    /// A contender in plain python. More arguments may follow.
    fn rival(&self) -> Command {
        let script = self.scripts.join("scaling.py");
        let mut command = plain_python(&self.models.join("bin/python"), &script);
        command.arg(&self.model).args([&self.expected, &self.catalogue]);
        command
    }
}
